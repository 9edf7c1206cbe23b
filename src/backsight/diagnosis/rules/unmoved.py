"""BS113: a parameter gets gradients, its optimizer steps, and it never moves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.scene import Scene
from backsight.diagnosis.wording import counted, listed
from backsight.naming import search
from backsight.tape.rows import dtype_name
from backsight.tracing.moves import Unmoved
from backsight.tracing.steps import parameters

_HALVES = (torch.float16, torch.bfloat16)


@rule("BS113")
def unmoved(scene: Scene) -> Iterator[Finding]:
    """Under a watch: its values are the same to the last bit after six steps of its optimizer or more."""
    if scene.steps is None:
        return
    for name, optimizer in scene.involved().items():
        found = told_unmoved(name, optimizer, scene.steps.moves.unmoved(optimizer))
        if found is not None:
            yield found


def told_unmoved(name: str, optimizer: torch.optim.Optimizer, still: Sequence[Unmoved]) -> Finding | None:
    """Return what an optimizer does not move as a finding; None if there is nothing to say.

    That the last steps to a solution are too small for the type is no fault, so in single precision it has to be the
    learning rate, or something that puts the values back.
    """
    zero = [each for each in still if each.rate == 0.0]
    moving = [each for each in still if each.rate]
    rounded = [each for each in moving if each.parameter.dtype in _HALVES]
    reset = [each for each in moving if each.parameter.dtype not in _HALVES and not _is_too_small(each)]
    grave = zero or rounded or reset
    if not grave:
        return None
    because, fix = _reason(name, grave[0], grave is zero, grave is rounded)
    names = [next((n.path for n in found), "a parameter") for found in search([e.parameter for e in grave[:4]]).names]
    shown = listed([*names, *[""] * len(grave[4:])], 4)
    of = len(parameters(optimizer))
    them = "it" if len(grave) == 1 else "them"
    return Finding(
        "BS113",
        "warning",
        f"{name}.step() does not move {names[0] if len(grave) == 1 else f'{len(grave)} of its {of} parameters'}.",
        (
            f"{shown}: bit-identical in {counted(grave[0].steps, 'step')}, although the gradient is not zero (up to "
            f"{max(each.pull for each in grave):.2g}).",
            because,
        ),
        fix.format(them=them),
    )


def _is_too_small(each: Unmoved) -> bool:
    """Whether a step of plain descent would be lost in the rounding of the largest value."""
    scale = float(each.parameter.detach().abs().max())
    return each.rate * each.pull <= scale * torch.finfo(each.parameter.dtype).eps


def _reason(name: str, first: Unmoved, is_zero: bool, is_rounded: bool) -> tuple[str, str]:
    if is_zero:
        return (
            "Its learning rate is 0.",
            "Check the scheduler: an integer division in the warm-up, or a rate that decayed to 0. To freeze "
            "{them}, requires_grad_(False) saves the work.",
        )
    kind = dtype_name(first.parameter.dtype)
    if is_rounded:
        bits = 8 if first.parameter.dtype is torch.bfloat16 else 11
        return (
            f"A {kind} has {bits} significant bits: with a learning rate of {first.rate:.2g} an update is smaller "
            "than the distance to the next number and is rounded away.",
            "Keep {them} in float32 and compute under torch.autocast, or use an optimizer with stochastic rounding.",
        )
    return (
        f"With a learning rate of {first.rate:.2g}, {name}.step() should have moved it: the step does not write to it, "
        "or something restores the old value.",
        "If you wrote the optimizer, check that step() changes {them} in place: p.add_(), not p.add(). Otherwise, look "
        "for code that writes to {them} after the step: copy_(), load_state_dict(), a clamp, or weights that are "
        "computed from others.",
    )
