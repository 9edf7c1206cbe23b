"""Faults put into right backwards, to see which of them a test of backwards finds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from samples import Sample
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from backsight.verification.check import checked
from backsight.verification.documented import documented
from backsight.verification.errors import CannotTest
from backsight.verification.point import Clock

Gradients = list[torch.Tensor]
Fault = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
"""What becomes of the first gradient; the second argument is its input."""


def _without_largest(gradient: torch.Tensor, _: torch.Tensor) -> torch.Tensor:
    changed = gradient.clone(memory_format=torch.contiguous_format)
    if changed.numel():
        changed.view(-1)[changed.abs().reshape(-1).argmax()] = 0
    return changed


FAULTS: dict[str, Fault] = {
    "none": lambda g, x: g,
    "scaled by 1.01": lambda g, x: g * 1.01,
    "wrong sign": lambda g, x: -g,
    "0.01 added": lambda g, x: g + 0.01,
    "largest entry dropped": _without_largest,
    "zeros": lambda g, x: g * 0,
    "ones where x > 0": lambda g, x: torch.where((x.real if x.is_complex() else x) > 0, torch.ones_like(g), g),
    "last dimension flipped": lambda g, x: g.flip(-1) if g.dim() else -g,
    "noise of 0.1 %": lambda g, x: g * (1 + 1e-3 * torch.randn_like(g)),
}

DIFFERENT = 1e-4
"""A fault that changes no entry by more than this, relative to the largest, is an equivalent mutant."""


@dataclass
class Effect:
    """What a fault did: whether it changed the gradient, and whether the right gradient was finite and not zero."""

    changed: bool = False
    finite: bool = True
    largest: float = 0.0

    @property
    def equivalent(self) -> bool:
        """Whether the mutant cannot be told from the original: the rules by which mutants are excluded."""
        return not self.changed or not self.finite


@dataclass
class Tally:
    """Of the mutants of one fault: caught, missed, equivalent, and those that verify declined to judge."""

    caught: int = 0
    missed: list[str] = field(default_factory=list)
    equivalent: int = 0
    declined: int = 0

    def add(self, sample: Sample, verdict: str, effect: Effect) -> None:
        """Count one mutant."""
        self.caught += verdict == "flagged"
        self.declined += verdict == "declined"
        self.equivalent += verdict == "clean" and effect.equivalent
        if verdict == "clean" and not effect.equivalent:
            self.missed.append(sample.name)


def tallied(drawn: Iterable[Sample]) -> dict[str, Tally]:
    """Put every fault into every sample; under "none" the clean controls, of which none may be caught."""
    tallies = {name: Tally() for name in FAULTS}
    for number, sample in enumerate(drawn):
        if documented(sample.operation()):  # its forward has no derivative to be compared with
            continue
        for name, fault in FAULTS.items():
            verdict, effect = tried(sample, fault, torch.Generator().manual_seed(number))
            if name == "none" and verdict in ("nothing", "declined"):
                break
            tallies[name].add(sample, verdict, effect)
    return tallies


def score(tallies: dict[str, Tally]) -> float:
    """The part of the mutants that was caught, without equivalent ones."""
    faulty = [tally for name, tally in tallies.items() if name != "none"]
    caught, missed = sum(each.caught for each in faulty), sum(len(each.missed) for each in faulty)
    return caught / (caught + missed)


def tried(sample: Sample, fault: Fault, generator: torch.Generator) -> tuple[str, Effect]:
    """Test a sample with a fault; return "flagged", "clean", "declined" or "nothing", and what the fault did.

    Declined is what verify says it could not judge, or not in float64: the output is of a narrower type.
    """
    effect = Effect()
    try:
        outcome = checked(sample.operation(_faulty(sample, fault, effect)), Clock(20), generator)
    except CannotTest:
        return "declined", effect
    if outcome is None:
        return "nothing", effect
    if outcome.findings:
        return "flagged", effect
    exact = outcome.judged and not outcome.unclear and "float64" in outcome.how
    return ("clean" if exact else "declined"), effect


def _faulty(sample: Sample, fault: Fault, effect: Effect) -> Callable[..., Any]:
    """The function of a sample with a backward of its own: PyTorch's, and then the fault."""

    def call(*args: Any, **kwargs: Any) -> Any:
        flat, spec = tree_flatten((args, kwargs))
        tensors = [k for k, each in enumerate(flat) if isinstance(each, torch.Tensor)]
        return _Mutant.apply(sample.function, flat, spec, tensors, fault, effect, *[flat[k] for k in tensors])

    return call


class _Mutant(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, function: Any, flat: Any, spec: Any, at: Any, fault: Any, effect: Any, *tensors: Any) -> Any:
        leaves, ctx.inputs, ctx.fault, ctx.effect = list(flat), [], fault, effect
        with torch.enable_grad():
            for k, tensor in zip(at, tensors, strict=True):
                needed = ctx.needs_input_grad[6 + at.index(k)]
                fresh = tensor.detach().clone().requires_grad_(needed)
                leaves[k] = fresh.clone() if needed else fresh  # some operators work in place
                ctx.inputs.append(fresh)
            args, kwargs = tree_unflatten(leaves, spec)
            found = [each for each in tree_leaves(function(*args, **kwargs)) if isinstance(each, torch.Tensor)]
        made = tuple(each.detach().clone() for each in found)
        ctx.carrying = [each.requires_grad for each in found]
        ctx.outputs = [each for each in found if each.requires_grad]
        ctx.mark_non_differentiable(*[each for each, carries in zip(made, ctx.carrying, strict=True) if not carries])
        return made

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        wanted = [each for each in ctx.inputs if each.requires_grad]
        given = [g for g, carries in zip(grads, ctx.carrying, strict=True) if carries]
        found = torch.autograd.grad(ctx.outputs, wanted, given, allow_unused=True, retain_graph=True)
        right = [torch.zeros_like(x) if g is None else g for g, x in zip(found, wanted, strict=True)]
        spoilt = [ctx.fault(right[0], wanted[0]), *right[1:]]
        _note(ctx.effect, right, spoilt)
        returned = iter(spoilt)
        return (None,) * 6 + tuple(next(returned) if each.requires_grad else None for each in ctx.inputs)


def _note(effect: Effect, right: Gradients, spoilt: Gradients) -> None:
    first = right[0]
    effect.finite &= all(bool(torch.isfinite(each).all()) for each in right)
    if first.numel() and effect.finite:
        scale = float(first.abs().max())
        gap = float((first - spoilt[0]).abs().max())
        effect.changed |= gap > DIFFERENT * max(scale, 1e-8)
        effect.largest = max(effect.largest, scale)
