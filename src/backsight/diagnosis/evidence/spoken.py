"""What the user's own line calls the tensors that an error is about."""

from __future__ import annotations

import ast
from collections.abc import Sequence

import torch

from backsight.diagnosis.wording import shown
from backsight.findings.evidence import Fact
from backsight.naming import search
from backsight.naming.roots import is_library
from backsight.source.body import Body, calls_in, keyword
from backsight.source.imports import is_gradient_call
from backsight.source.rewriting import simple as simple
from backsight.story.failure import Failure
from backsight.story.handed import Handed, handed


def called(failure: Failure, tensor: torch.Tensor) -> str:
    """What the program calls a tensor that backward was run on where it was made, else in the failing line: `loss`."""
    known, level = handed(failure, tensor), failure.user
    receiver = level.receiver if level and len(failure.roots) == 1 else None
    if receiver and (known is None or not known.given or receiver != known.inner):
        return receiver
    return known.name if known else names_of(failure, [tensor])[0]


def passed(known: Handed | None) -> list[Fact]:
    """The statement that handed a tensor on under another name, as evidence."""
    place = known.given if known else None
    return [shown(place, f"passes {known.name} as {known.inner}.")] if known and place else []


def names_of(failure: Failure, targets: Sequence[object]) -> list[str]:
    """What the program calls each of `targets`; empty for those that no variable reaches."""
    found = search(targets, frames=failure.frames).names
    return [next((name.path for name in names if not (name.file and is_library(name.file))), "") for names in found]


def differentiated(failure: Failure) -> list[str]:
    """The tensors that the user's line asks the gradient for, as it writes them: `x` and `t` of `grad(u, (x, t))`.

    Empty where the source cannot be read or does not show them one by one.
    """
    level = failure.user
    statement = level.statement if level else None
    if statement is None or level is None or level.body is None:
        return []
    for node in calls_in(statement):
        if is_gradient_call(node):
            inputs = node.args[1] if len(node.args) > 1 else keyword(node, "inputs")
            if inputs is not None:
                return _texts(level.body, inputs)
    return []


def _texts(body: Body, inputs: ast.expr) -> list[str]:
    each = inputs.elts if isinstance(inputs, ast.Tuple | ast.List) else [inputs]
    return [] if any(isinstance(one, ast.Starred) for one in each) else [body.text(one) for one in each]
