"""`NUMBERS`: the mistakes with a number of forward, an eps or a bound, with their words."""

from __future__ import annotations

from collections.abc import Callable

from backsight.verification.steps.alteration import Alteration
from backsight.verification.steps.bounds import (
    added,
    added_after,
    added_before,
    added_instead,
    as_output,
    at_output,
    bound_not_masked,
    bounds,
    by_quotient,
    clamped,
    in_divisor,
    its_slope,
    its_value,
    not_added,
    whole,
    without_bound,
)
from backsight.verification.steps.step import Step
from backsight.verification.wording import number


def _of_sum(step: Step, _: int) -> dict[str, str]:
    inner = next((made for made in map(step.origin, range(len(step.args))) if made is not None), None)
    return {"number": number(added(step)), "function": inner.name if inner else ""}


def _of_function(step: Step, _: int) -> dict[str, str]:
    before = step.origin(0)
    return {"number": number(added(before) if before else None), "function": step.name}


def _of_divisor(of: Callable[[Step, int], dict[str, str]]) -> Callable[[Step, int], dict[str, str]]:
    def words(step: Step, operand: int) -> dict[str, str]:
        divisor = step.origin(1)
        return of(divisor, operand) if divisor else {}

    return words


def _of_clamp(step: Step, _: int) -> dict[str, str]:
    return {"number": number(bounds(step)[0])}


def _of_bound(_: Step, which: int) -> dict[str, str]:
    return {"bound": ("upper", "lower")[which]}


_SAME_EXPRESSION = "Use in backward what forward computed, including the {number} and its place."

_ONLY_VALUES = "With the values of that forward, and the derivatives of this one, the returned gradient is reproduced."
_ONLY_SLOPES = "With that derivative of {step}, and the values of this forward, the returned gradient is reproduced."
_ONLY_QUOTIENT = (
    "If the divisor of {step} is that, and the quotient as forward has it, the returned gradient is reproduced."
)
_ONLY_DIVISOR = (
    "If {step} has that divisor in its derivative, and the value of forward, the returned gradient is reproduced."
)

NOT_ADDED = Alteration(
    "BS416",
    whole(not_added),
    "as if forward did not add {number} in {step}",
    "It is the right gradient of a forward that does not.",
    _SAME_EXPRESSION,
    _of_sum,
)

NUMBERS: tuple[Alteration, ...] = (
    NOT_ADDED._replace(evidence="It is the right gradient of a forward without that number."),
    *(
        Alteration("BS416", way(other), title, evidence, _SAME_EXPRESSION, words)
        for way, evidence in (
            (whole, "It is the right gradient of that forward, and not of this one."),
            (its_slope, _ONLY_SLOPES),
            (its_value, _ONLY_VALUES),
        )
        for other, title, words in (
            (added_before, "as if forward added {number} before {function}, and not after it", _of_sum),
            (added_after, "as if forward added {number} after {function}, and not before it", _of_function),
        )
    ),
    *(
        Alteration("BS416", by_quotient(other), title, _ONLY_QUOTIENT, _SAME_EXPRESSION, _of_divisor(words))
        for other, title, words in (
            (added_before, "as if forward added {number} before {function}, and not after it", _of_sum),
            (added_after, "as if forward added {number} after {function}, and not before it", _of_function),
        )
    ),
    Alteration(
        "BS416",
        as_output(added_after),
        "as if forward added {number} after {function}, and not before it",
        "With that value of {step}, and its derivative in terms of that, the returned gradient is reproduced.",
        _SAME_EXPRESSION,
        _of_function,
    ),
    Alteration(
        "BS416",
        at_output(added_after),
        "with {number} added after {function}, and not before it, in its derivative",
        "The derivative of {function} in terms of its output reproduces the returned gradient with that output.",
        _SAME_EXPRESSION,
        _of_function,
    ),
    *(
        Alteration("BS416", in_divisor(other), title, _ONLY_DIVISOR, _SAME_EXPRESSION, _of_divisor(words))
        for other, title, words in (
            (added_before, "as if forward added {number} before {function}, and not after it", _of_sum),
            (added_after, "as if forward added {number} after {function}, and not before it", _of_function),
        )
    ),
    *(
        Alteration("BS416", whole(other), title, "It is the right gradient of that forward.", _SAME_EXPRESSION, words)
        for other, title, words in (
            (clamped, "as if forward had a clamp at {number} in place of {step}", _of_sum),
            (added_instead, "as if forward added {number} in place of {step}", _of_clamp),
        )
    ),
    *(
        Alteration(
            "BS408",
            alter,
            "as if {step} had no {bound} bound",
            evidence,
            "Make the mask in backward from both bounds.",
            _of_bound,
        )
        for alter, evidence in (
            (
                bound_not_masked,
                "With the other bound alone in its derivative, the returned gradient is reproduced.",
            ),
            (without_bound, "It is the right gradient of a forward without that bound."),
        )
    ),
)
"""What is done with a number of forward elsewhere: an eps, a bound."""
