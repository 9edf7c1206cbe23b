"""One digest of whatever a training has left: weights, states of optimizers, numbers."""

from __future__ import annotations

import hashlib
from typing import Any

import torch


def digest(*states: Any) -> str:
    """Return the SHA-256 of all tensors and numbers in modules, optimizers, dictionaries and lists."""
    sha = hashlib.sha256()
    for state in states:
        _add(sha, state)
    return sha.hexdigest()


def _add(sha: Any, state: Any) -> None:
    if isinstance(state, (torch.nn.Module, torch.optim.Optimizer)):
        state = state.state_dict()
    if isinstance(state, dict):
        for key, value in state.items():
            sha.update(str(key).encode())
            _add(sha, value)
    elif isinstance(state, (list, tuple)):
        for value in state:
            _add(sha, value)
    elif isinstance(state, torch.Tensor):
        sha.update(str((state.dtype, state.shape)).encode())
        sha.update(state.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    elif isinstance(state, (bool, int, float, str, type(None))):
        sha.update(repr(state).encode())
