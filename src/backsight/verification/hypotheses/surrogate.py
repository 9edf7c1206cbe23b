"""BS417: the gradient is not the derivative, as surrogates are not; the usual ones are known by what they return."""

from __future__ import annotations

from collections.abc import Callable

import torch

from backsight.verification.case import Case, Draw
from backsight.verification.hypotheses.explanation import Explanation
from backsight.verification.hypotheses.factor import factor_of
from backsight.verification.wording import number, times

DECLARE = 'If this is intended, declare it: put `@backsight.surrogate("{}")` on the Function.'


def surrogate(case: Case) -> Explanation | None:
    """The gradient is one that people return on purpose. A mistake may look like some of these: they are warnings."""
    return _constant(case) or _passed_on(case) or _multiple(case) or _limited(case)


def as_declared(case: Case, kind: str, otherwise: Explanation) -> Explanation:
    """Say of a gradient that is declared to be a surrogate what it is: a warning if it is not what was declared."""
    subject = f"{case.subject} returns"
    evidence = (otherwise.title, *otherwise.evidence)
    if (holds := _KINDS.get(kind)) is not None and not holds(case):
        return Explanation(
            f"{subject} a gradient for `{case.argument}` that is declared {kind} but is not.",
            (*evidence, _MEANING[kind]),
            "Declare what it is, or change backward.",
            severity="warning",
        )
    return Explanation(f"{subject} a declared surrogate for `{case.argument}`: {kind}.", evidence, "", severity="note")


def _constant(case: Case) -> Explanation | None:
    """The right gradient is zero in every entry: a step function, with a straight-through estimator perhaps."""
    got = case.at(case.draws[0].got)
    largest = float(got.abs().max())
    if not all(float(draw.right.abs().max()) <= 1e-9 * largest for draw in case.draws):
        return None
    straight = case.elementwise and bool(case.equal(case.at(case.draws[0].u), got).all())
    what = "grad_output itself" if straight else f"a gradient of up to {number(largest)}"
    return Explanation(
        f"{case.subject} returns {what} for `{case.argument}`, on which forward does not depend.",
        (
            f"Around these values the output does not change with `{case.argument}` (a rounding, a comparison, a "
            "detached value): the derivative is 0.",
        ),
        f"{DECLARE.format('straight-through' if straight else 'surrogate gradient')} Otherwise return zeros.",
        severity="warning",
    )


def _passed_on(case: Case) -> Explanation | None:
    """grad_output passes where the derivative is zero, as in a clamp; all other entries are right."""
    if not case.elementwise or not all(_passes(case, draw) for draw in case.draws):
        return None
    through = case.is_wrong
    return Explanation(
        f"{case.subject} passes grad_output straight through to `{case.argument}` where forward does not change.",
        (f"The derivative is 0 at {case.counted(through)}, and grad_output is returned there; the others are right.",),
        f"{DECLARE.format('straight-through')} Otherwise mask grad_output where forward is constant.",
        severity="warning",
    )


def _passes(case: Case, draw: Draw) -> bool:
    """Whether grad_output is returned as it is, and right but where the derivative is zero."""
    got, right = case.at(draw.got), draw.right
    flat, fits = case.equal(torch.zeros_like(right), right), case.equal(got, right)
    return bool(case.equal(draw.got, draw.u).all()) and bool((flat | fits).all()) and bool((fits & ~flat).any())


def _multiple(case: Case) -> Explanation | None:
    """Forward hands its input on, and backward multiplies the gradient: that is all that such a Function is for."""
    factor = factor_of(case) if _is_identity(case) else None
    if factor is None:
        return None
    kind, asked = ("gradient-reversal", "a gradient reversal?") if factor < 0 else ("scaled", "scaled on purpose?")
    told = f"-{number(-factor)}" if factor < 0 else times(factor, words=False)
    return Explanation(
        f"{case.subject} returns exactly {told} times the true gradient of `{case.argument}`: {asked}",
        ("Forward returns its input unchanged, so this factor is all that the Function does.",),
        DECLARE.format(kind),
        severity="note",
    )


def _limited(case: Case) -> Explanation | None:
    """The derivative times grad_output up to a limit: clipped by entry or by norm."""
    how = _clipped(case)
    if how is None:
        return None
    return Explanation(
        f"{case.subject} returns the true gradient of `{case.argument}` clipped {how}: on purpose?",
        ("Values below the limit are right; values above it have the right direction.",),
        DECLARE.format("clipped"),
        severity="note" if _is_identity(case) else "warning",
    )


def _clipped(case: Case) -> str | None:
    limit = max(float(draw.got.abs().max()) for draw in case.draws)
    if not case.input.is_complex() and limit > 0:
        rights = [draw.right for draw in case.draws]
        cut = [right.clamp(-limit, limit) for right in rights]
        pairs = list(zip(case.draws, cut, strict=True))
        kept = any(bool((right.abs() < limit * 0.99).any()) for right in rights)
        if kept and all(bool(case.equal(case.at(draw.got), right).all()) for draw, right in pairs):
            return f"to {number(limit)} in each entry"
    return _clipped_by_norm(case)


def _clipped_by_norm(case: Case) -> str | None:
    norms = [float(torch.linalg.vector_norm(draw.got)) for draw in case.draws]
    limit = max(norms)
    if limit == 0 or case.positions.numel() != case.input.numel():
        return None
    for draw, norm in zip(case.draws, norms, strict=True):
        size = float(torch.linalg.vector_norm(draw.right))
        if abs(norm - min(size, limit)) > 1e-4 * limit or size == 0:
            return None
        if not bool(case.equal(case.at(draw.got) * (size / norm), draw.right).all()):
            return None
    return f"to a norm of {number(limit)}"


def _is_identity(case: Case) -> bool:
    return case.elementwise and torch.equal(case.output, case.input)


def _is_straight_through(case: Case) -> bool:
    return case.elementwise and all(bool((case.equal(draw.got, draw.u) | (draw.got == 0)).all()) for draw in case.draws)


def _is_reversed(case: Case) -> bool:
    factor = -1.0 if case.fits(lambda draw: -draw.got) else factor_of(case)
    return factor is not None and factor < 0


_KINDS: dict[str, Callable[[Case], bool]] = {
    "straight-through": _is_straight_through,
    "gradient-reversal": _is_reversed,
    "scaled": lambda case: factor_of(case) is not None,
    "clipped": lambda case: _clipped(case) is not None,
}
"""By name: whether a gradient is a surrogate of this kind."""

_MEANING = {
    "straight-through": "Straight-through, each entry is grad_output or 0.",
    "gradient-reversal": "Reversed, it is a negative multiple of the derivative.",
    "scaled": "Scaled, it is a multiple of the derivative.",
    "clipped": "Clipped, it is the derivative up to a limit.",
}
