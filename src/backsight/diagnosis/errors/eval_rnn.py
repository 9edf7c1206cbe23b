"""BS229: backward through a cuDNN RNN that ran in evaluation mode."""

from __future__ import annotations

import re
from collections.abc import Iterator

import torch

from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, listed, shown
from backsight.naming import search
from backsight.naming.plain import class_name
from backsight.source import Place
from backsight.source.body import callee, dotted, is_constant
from backsight.story.failure import Failure
from backsight.story.files import calls_in_files


@explains("BS229", r"cudnn RNN backward can only be called in training mode")
def eval_rnn(failure: Failure, match: re.Match[str]) -> Finding:
    """Name the RNN that is in evaluation mode, and the line that put it there."""
    found = search((), frames=failure.frames, collect=(torch.nn.RNNBase,)).found
    held = [(each, name.path) for each, name in found if isinstance(each, torch.nn.RNNBase) and not each.training]
    names = [path for _, path in held]
    kind = class_name(type(held[0][0])) if held else "RNN"
    name = listed(names, 2) if names else "An RNN"
    parts = {part for path in names for part in path.split(".")}
    evals = list(_evaluating(failure, parts))
    lines = [shown(place, "puts it in evaluation mode.", "read") for place in evals[:2]]
    first = names[0] if len(names) == 1 else "rnn"
    dropped = any(each.dropout for each, _ in held)
    quiet = f" Without dropout, set {first}.dropout = 0.0." if dropped else ""
    return explanation(
        f"{name}{f' (a {kind})' if held else ''} ran in evaluation mode, where cuDNN saves nothing for backward.",
        (*lines, *failing(failure, "needs what only training mode saves.")),
        f"Keep it in training mode, also where its weights are frozen: {first}.train() after the model is put in "
        f"evaluation mode.{quiet} Or run its forward pass inside `with torch.backends.cudnn.flags(enabled=False):`.",
        source=str(evals[0]) if len(evals) == 1 else failure.source,
        exact=len(names) == 1 and len(evals) == 1,
    )


def _evaluating(failure: Failure, parts: set[str]) -> Iterator[Place]:
    """The statements that put one of these, or a module around it, in evaluation mode."""
    for body, statement, call in calls_in_files(failure):
        receiver, method = callee(call)
        off = method == "eval" or (method == "train" and bool(call.args) and is_constant(call.args[0], False))
        if off and not (method == "eval" and call.args) and (dotted(receiver) or "").split(".")[-1] in parts:
            yield body.place(statement)
