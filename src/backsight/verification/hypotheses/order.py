"""BS407: the gradients come in the wrong order."""

from __future__ import annotations

from backsight.verification.case import Case
from backsight.verification.hypotheses.explanation import Explanation
from backsight.verification.wording import listed


def wrong_order(case: Case) -> Explanation | None:
    """The gradient of this input is returned for another one, and that one's for this."""
    for other, tensor in enumerate(case.point.inputs):
        if other == case.number or tensor.shape != case.input.shape or tensor.dtype != case.input.dtype:
            continue
        if case.fits(lambda draw: draw.got, other) and _fits_mine(case, other):
            names = [case.argument_of(k) for k in sorted((case.number, other))]
            evidence = (
                f"The gradient returned for `{names[0]}` is the right one for `{names[1]}`, and vice versa.",
                "Backward returns one gradient for each argument of forward, in the order of the arguments.",
            )
            taken = ", ".join(_parameters(case)) or ", ".join(names)
            return Explanation(
                f"{case.subject} returns the gradients of {listed(names)} in the wrong order.",
                evidence,
                f"Return them in the order of forward's arguments: {taken}.",
            )
    return None


def _fits_mine(case: Case, other: int) -> bool:
    return all(
        gradient is not None and bool(case.equal(case.at(gradient), draw.right).all())
        for gradient, draw in zip(case.returned_for(other), case.draws, strict=True)
    )


def _parameters(case: Case) -> list[str]:
    definition, count = case.definition, len(case.point.values)
    return definition.parameters(count) if definition and case.operation.spec is None else []
