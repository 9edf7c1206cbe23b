"""The call of a checkpoint that runs its part again inside of backward: `use_reentrant` is not False."""

from __future__ import annotations

from typing import NamedTuple

import torch

from backsight.naming.plain import namespace
from backsight.source import Place, statement_at
from backsight.source.body import callee, is_constant, keyword
from backsight.source.edits import write
from backsight.source.rewriting import with_flag
from backsight.story.failure import Failure
from backsight.story.holders import found_around
from backsight.story.sections import sections
from backsight.tape import modules_in

CHECKPOINTS = frozenset({"checkpoint", "checkpoint_sequential"})


class Reentrant(NamedTuple):
    """The statement of the call, the name of the function, and the statement with use_reentrant=False; empty where that
    is too long."""

    place: Place
    name: str
    mended: str


def reentrant_call(failure: Failure) -> Reentrant | None:
    """Return the nearest call of a reentrant checkpoint on the way to what backward was run on."""
    for section in sections(failure):
        for call, place in section.calls():
            name, given = callee(call)[1], keyword(call, "use_reentrant")
            if name not in CHECKPOINTS or is_constant(given, False):
                continue
            statement = statement_at(section.body, *place.position)
            return Reentrant(place, name, with_flag(section.body, statement, call, "use_reentrant", "False"))
    return None


def without_reentry(failure: Failure, call: Reentrant | None) -> str:
    """How a checkpoint, or those of a model of the transformers library, record what inputs without a gradient give."""
    if call is not None:
        mended = f"write `{call.mended}`{write(call.place, call.mended)}"
        how = mended if call.mended else f"pass use_reentrant=False to {call.name}()"
        return f"On line {call.place.line}, {how}."
    model = checkpointing(failure)
    if not model:
        return ""
    enable = f"{model}.gradient_checkpointing_enable(gradient_checkpointing_kwargs={{'use_reentrant': False}})"
    return f"Call {enable}, or {model}.enable_input_require_grads()."


def checkpointing(failure: Failure) -> str:
    """A model of the transformers library that checkpoints its layers, as the functions that run call it."""
    held = found_around(failure.frames, torch.nn.Module)
    inside = ((path, namespace(each) or {}) for module, path in held for _, each in modules_in(module))
    paths = (path for path, attributes in inside if attributes.get("gradient_checkpointing") is True)
    return min(paths, key=len, default="")
