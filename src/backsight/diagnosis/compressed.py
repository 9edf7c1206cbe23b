"""BS141: DistributedDataParallel compresses all gradients to zero, as they are too small for float16."""

from __future__ import annotations

from collections.abc import Sequence
from types import FrameType
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from backsight.diagnosis.amending import gone
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import calls_around, method_of
from backsight.diagnosis.wording import if_known, numbered, warning
from backsight.naming import search
from backsight.naming.plain import namespace
from backsight.source import only
from backsight.source.edits import OR
from backsight.tape import parameters_in

CODES = ("BS141",)

_HALVES = "fp16_compress"
"""How the hooks of PyTorch that send gradients as float16 begin."""


def compressed(lost: Sequence[torch.Tensor], since: int, frame: FrameType | None) -> Finding | None:
    """Return the finding that a hook rounds each gradient of a model to zero; `lost` are all that have a gradient.

    It is to be asked where no operation of the graph was seen to make the gradients zero.
    """
    ids = {id(p) for p in lost}
    for model, name in search((), collect=(DistributedDataParallel,)).found:
        if not isinstance(model, torch.nn.Module) or not _halving(model):
            continue
        if all(id(p) in ids for p in parameters_in(model) if p.requires_grad):
            places = [body.place(s) for body, s, call in calls_around(frame) if method_of(call)[1] == _REGISTERS]
            place = only(places)
            return warning(
                "BS141",
                f"All gradients of {name.path} are zero: its communication hook rounds them to zero.",
                (
                    if_known(place, "sends each gradient as float16, where everything below 3e-8 rounds to zero."),
                    f"Each gradient that was read from step {numbered(since)} on was exactly zero.",
                ),
                f"Remove the hook{gone(place)}, so the gradients stay in float32. {OR}Or multiply the loss by a "
                "constant, such as 2**16, before backward(), and divide the gradients by it before the step.",
                place,
                since=since,
            )
    return None


_REGISTERS = "register_comm_hook"


def _halving(model: torch.nn.Module) -> bool:
    """Whether one of the hooks of a model sends float16."""
    hooks: Any = (namespace(model) or {}).get("_comm_hooks", ())
    names = [getattr(each[0], "__name__", "") for each in hooks if type(each) is tuple and each]
    return any(each.startswith(_HALVES) for each in names if isinstance(each, str))
