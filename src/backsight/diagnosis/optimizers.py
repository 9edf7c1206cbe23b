"""BS119, BS135: optimizers that lose what they have learned: by their weight decay, or as they are made anew."""

from __future__ import annotations

import ast
import math
import re
from dataclasses import replace
from types import FrameType
from typing import Any, TypeGuard

import torch

from backsight.diagnosis.amending import instead
from backsight.diagnosis.creating import above_loops
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import constructions, named, statements_around
from backsight.diagnosis.wording import counted, if_known, warning
from backsight.snapshot import groups
from backsight.source import Place, only, read_at
from backsight.source.body import callee, expressions, keyword

CODES = ("BS119", "BS135")

_VANISHING = 0.02
"""The share of a weight that decay may take away in a step: usual are a thousandth and less."""


def shrinking(optimizer: torch.optim.Optimizer, since: int, frame: FrameType) -> Finding | None:
    """Return the finding that weight decay alone makes the weights of an optimizer vanish within some tens of steps."""
    shares = [_decayed(optimizer, group) for group in groups(optimizer)]
    share = max(shares, default=0.0)
    if share < _VANISHING:
        return None
    group = groups(optimizer)[shares.index(share)]
    known = _decay(optimizer, frame)
    name, half = named(optimizer, "the optimizer"), math.ceil(math.log(0.5) / math.log(1 - share)) if share < 1 else 1
    return warning(
        "BS135",
        f"The weight decay of {name} shrinks the weights to 0.",
        (
            if_known(known[0] if known else None, "sets it."),
            f"With weight_decay={group['weight_decay']:g} and lr={group['lr']:g} each step shrinks every weight by "
            f"{share:.1%}: after {counted(half, 'step')} it is half as large, unless the gradient opposes it.",
        ),
        (_undivided(*known) if known else "")
        or "Usual values are 1e-4 to 1e-2 for SGD and up to 0.1 for AdamW. Check whether the value was meant for "
        "something else, such as the decay of the learning rate.",
        known[0] if known else None,
        since=since,
    )


def _decay(optimizer: torch.optim.Optimizer, frame: FrameType) -> tuple[Place, ast.expr] | None:
    """Return the one statement that gives an optimizer a weight decay, and the decay: in a group of parameters, else to
    the class of the optimizer, else as an argument of this name."""
    grouped: list[tuple[Place, ast.expr]] = []
    to_class: list[tuple[Place, ast.expr]] = []
    every: list[tuple[Place, ast.expr]] = []
    for body, statement in statements_around(frame):
        for node in expressions(statement):
            if isinstance(node, ast.Call) and _is_decay(value := keyword(node, "weight_decay")):
                every.append((body.place(statement), value))
                if callee(node)[1] == type(optimizer).__name__:
                    to_class.append(every[-1])
            elif isinstance(node, ast.Dict):
                entries = {k.value: v for k, v in zip(node.keys, node.values, strict=True) if _is_text(k)}
                if "params" in entries and _is_decay(value := entries.get("weight_decay")):
                    grouped.append((body.place(statement), value))
    found = grouped or to_class or every
    return only(found)


def _is_decay(value: ast.expr | None) -> TypeGuard[ast.expr]:
    return value is not None and not (isinstance(value, ast.Constant) and not value.value)


def _is_text(key: ast.expr | None) -> TypeGuard[ast.Constant]:
    return isinstance(key, ast.Constant) and type(key.value) is str


def _undivided(place: Place, value: ast.expr) -> str:
    """Say what to give in place of a decay that is divided by the learning rate; empty for any other."""
    match value:
        case ast.BinOp(left=left, op=ast.Div(), right=right) if re.search(r"lr|rate", ast.unparse(right)):
            body, statement = read_at(place)
            edit = instead(body, statement, {value: ast.unparse(left)})
            return (
                f"Pass weight_decay={ast.unparse(left)}, without the division{edit}: each step multiplies the decay by "
                "the learning rate itself."
            )
    return ""


def _decayed(optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> float:
    """Return the share of a weight that each step takes away, apart from the gradient; 0 where that is not known.

    Source: the algorithms in the documentation of torch.optim.SGD and AdamW.
    """
    rate, decay, momentum = (group.get(key, 0.0) for key in ("lr", "weight_decay", "momentum"))
    if any(type(each) not in (float, int) for each in (rate, decay, momentum)):
        return 0.0
    if isinstance(optimizer, torch.optim.SGD):
        return min(1.0, float(rate * decay / max(1 - momentum, 1e-3)))
    return float(rate * decay) if isinstance(optimizer, torch.optim.AdamW) else 0.0


def made_anew(optimizer: torch.optim.Optimizer, times: int, steps: int, since: int, frame: FrameType) -> Finding | None:
    """Return the finding that an optimizer with a state is made anew again and again."""
    name = named(optimizer, "the optimizer")
    if not _has_state(optimizer):
        return None
    each = steps / max(times, 1)
    made = next(iter(constructions(frame, optimizer, name)), None)
    found = warning(
        "BS119",
        f"{name} is recreated again and again and loses its state.",
        (
            f"{times + 1} of them trained the same parameters one after the other, each for {each:.0f} "
            f"step{'s' * (round(each) != 1)}: momentum and averages start from zero each time.",
            if_known(made, "runs each time."),
        ),
        f"Create {name} once, before the loop{above_loops(made)}.",
        made,
        since=since,
    )
    return found if each < 3 else replace(found, severity="note")


def _has_state(optimizer: torch.optim.Optimizer) -> bool:
    state: Any = object.__getattribute__(optimizer, "__dict__").get("state", {})
    return any(isinstance(v, torch.Tensor) and v.dim() for held in list(state.values())[:1] for v in held.values())
