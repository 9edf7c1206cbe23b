"""What a program has set that decides on results: precision, threads, random generators, hyperparameters."""

from __future__ import annotations

import hashlib
import os
import random
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from backsight.tape import no_torch_dispatch, no_torch_function


def settings() -> dict[str, Any]:
    """Return the settings as plain data, those of random generators as a digest of their states."""
    return {
        "float32 matmul precision": torch.get_float32_matmul_precision(),
        "TF32 in cuBLAS": torch.backends.cuda.matmul.allow_tf32,
        "TF32 in cuDNN": torch.backends.cudnn.allow_tf32,
        "deterministic algorithms": torch.are_deterministic_algorithms_enabled(),
        "cuDNN benchmark": torch.backends.cudnn.benchmark,
        "threads": torch.get_num_threads(),
        "default dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "random state": random_states(),
    }


def hyperparameters(
    optimizers: Iterable[torch.optim.Optimizer], names: Mapping[int, str] | None = None
) -> list[dict[str, Any]]:
    """Return class and hyperparameters of optimizers as plain data.

    names: those of parameters by their `id`, for each group to say which are in it.
    """
    return [_optimizer(each, names or {}) for each in optimizers]


def random_states() -> dict[str, str]:
    """Return a digest of the state of each global random generator."""
    with no_torch_function(), no_torch_dispatch():  # no mode of the program sees us read
        found = {"torch": _digest(torch.get_rng_state().numpy().tobytes())}
    found["python"] = _digest(repr(random.getstate()).encode())
    if (legacy := getattr(getattr(sys.modules.get("numpy"), "random", None), "get_state", None)) is not None:
        found["numpy"] = _digest(repr([each if type(each) is not None else "" for each in _flat(legacy())]).encode())
    found["hash seed"] = os.environ.get("PYTHONHASHSEED", "random")
    return found


def _flat(state: Any) -> list[Any]:
    return [each.tobytes() if hasattr(each, "tobytes") else each for each in state]


def _digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def _optimizer(optimizer: torch.optim.Optimizer, names: Mapping[int, str]) -> dict[str, Any]:
    """Return class and hyperparameters, read past whatever the class defines."""
    groups = object.__getattribute__(optimizer, "__dict__").get("param_groups", [])
    own = object.__getattribute__(optimizer, "__dict__").get("defaults") or {}  # schedules keep notes of theirs there
    plain = [{key: _plain(value) for key, value in group.items() if key in own} for group in groups]
    members = [[names[id(each)] for each in group.get("params", ()) if id(each) in names] for group in groups]
    return {"class": type(optimizer).__name__, "groups": plain, "members": members}


def _plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return "a tensor"
    if value is None or type(value) in (bool, int, float, str):
        return value
    return [_plain(each) for each in value] if isinstance(value, (list, tuple)) else type(value).__name__


_HOW = ("params", "foreach", "fused", "capturable", "differentiable", "initial_lr")
"""What of a group of parameters does not change what is computed."""


def numbers(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """Return the numbers of the groups of an optimizer; those in tensors of the CPU too, as no device is waited for."""
    groups = object.__getattribute__(optimizer, "__dict__").get("param_groups", [])
    return [{key: _number(value) for key, value in group.items() if key not in _HOW} for group in groups]


def _number(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.item() if value.is_cpu and value.numel() == 1 and not value.is_complex() else "a tensor"
    return _plain(value)
