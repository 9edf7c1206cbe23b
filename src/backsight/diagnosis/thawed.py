"""BS101 of what is unfrozen in the midst of a training: no optimizer that makes steps holds it."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from types import FrameType

import torch

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.vital import constructions, freezing, named, program_frames
from backsight.diagnosis.wording import listed, shown
from backsight.findings.evidence import Fact
from backsight.naming import search
from backsight.source import Place
from backsight.source.body import functions


def thawed(
    tensors: Sequence[torch.Tensor], optimizer: torch.optim.Optimizer, since: int, frame: FrameType | None
) -> Finding | None:
    """Return the finding that parameters were unfrozen, have had gradients since, and have not moved.

    None where the program reads gradients itself: it may move them by hand, or want no more than to look.
    """
    files = dict.fromkeys(each.f_code.co_filename for each in program_frames(frame))
    scopes = [body.node for file in files for body in functions(file)]
    if any(isinstance(node, ast.Attribute) and node.attr == "grad" for scope in scopes for node in ast.walk(scope)):
        return None
    one, name, made = len(tensors) == 1, *_made(optimizer, frame)
    names = [found[0].path if found else "a parameter" for found in search(tensors[:2], limit=1).names]
    few = listed([*names, *[""] * len(tensors[2:])], 2)
    on = [body.place(statement) for body, statement, on in freezing(frame) if on]
    evidence: list[Fact] = ["Frozen at first, they have gradients now, and their values do not change."]
    if len(on) == 1:
        evidence.append(shown(on[0], "sets requires_grad, but adds nothing to an optimizer."))
    if made:
        evidence.append(shown(made[-1], f"creates {name}, which does not hold {'it' if one else 'them'}."))
    return Finding(
        "BS101",
        "warning",
        f"{few} {'was' if one else 'were'} unfrozen, but no optimizer updates {'it' if one else 'them'}.",
        tuple(evidence),
        f"Add them when you unfreeze them, with {name}.add_param_group, or create {name} with all parameters: it skips "
        "those that have no gradient.",
        source=str(made[-1]) if made else str(on[0]) if len(on) == 1 else None,
        since=since,
    )


def _made(optimizer: torch.optim.Optimizer, frame: FrameType | None) -> tuple[str, list[Place]]:
    """Return the name under which an optimizer is created, and where; a function may call it otherwise."""
    for name in [each.path for each in search([optimizer]).names[0]]:
        if made := constructions(frame, optimizer, name):
            return name, made
    return named(optimizer, "the optimizer"), []
