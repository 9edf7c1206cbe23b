"""BS403: the gradient has the wrong sign."""

from __future__ import annotations

from backsight.verification.case import Case
from backsight.verification.hypotheses.explanation import Explanation
from backsight.verification.hypotheses.wording import number


def wrong_sign(case: Case) -> Explanation | None:
    """The gradient is minus the right one."""
    if not case.fits(lambda draw: -draw.got):
        return None
    largest = case.draws[0].right.abs().argmax()
    got, right = case.at(case.draws[0].got)[largest], case.draws[0].right[largest]
    evidence = (
        f"{case.counted(case.is_wrong).capitalize()} are the right ones times -1; "
        f"the largest is {number(got)} and must be {number(right)}.",
        f"Where `{case.argument}` grows, the loss moves the other way: training would climb instead of descend.",
    )
    expression = case.source_of_gradient()
    cure = f"Negate it: `{_negated(expression)}`." if expression else "Negate it."
    return Explanation(f"{case.subject} returns the gradient of `{case.argument}` with the wrong sign.", evidence, cure)


def _negated(expression: str) -> str:
    if expression.startswith("-") and expression[1:].replace("_", "").isalnum():
        return expression[1:]
    return f"-{expression}" if expression.replace("_", "").isalnum() else f"-({expression})"
