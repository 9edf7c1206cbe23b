"""BS409: None, or zeros, are returned for an input that needs a gradient."""

from __future__ import annotations

from backsight.verification.case import Case, Known
from backsight.verification.hypotheses.explanation import Explanation
from backsight.verification.wording import number


def nothing_returned(case: Case) -> Explanation | None:
    """The gradient is None or zero everywhere, and the forward, where it is known, does depend on the input."""
    if Known.FORWARD not in case.known:
        return _none(case, "No gradient passes this point: nothing computed before it learns through it.")
    if not case.returned_none and any(bool((draw.got != 0).any()) for draw in case.draws):
        return None
    path = case.operation.paths()[case.point.wanted[case.number]]
    if case.operation.custom is not None and len(path) > 1:
        name = case.argument.partition("[")[0]
        return Explanation(
            f"{case.operation.name}.apply gets `{name}` in a container, where autograd does not see it.",
            (
                "forward depends on it, but no gradient will ever arrive: Function.apply looks for tensors only "
                "among its direct arguments.",
            ),
            "Pass each tensor as a separate argument, as in apply(*tensors), and return a gradient for each.",
        )
    what = "None" if case.returned_none else "zeros"
    largest = number(case.draws[0].right.abs().max())
    return Explanation(
        f"{case.subject} returns {what} for `{case.argument}`, which needs a gradient.",
        (
            f"forward depends on `{case.argument}`: the right gradient reaches {largest}. As it is, "
            f"`{case.argument}` silently never learns.",
        ),
        f"Return {case.grad_output} times the derivative of forward with respect to `{case.argument}`; None is only "
        "for arguments that ctx.needs_input_grad does not ask for.",
    )


def _none(case: Case, why: str) -> Explanation | None:
    """Whether there should be a gradient nothing tells without the forward."""
    if not case.returned_none:
        return None
    return Explanation(
        f"{case.subject} returns None for `{case.argument}`, which needs a gradient.",
        (why,),
        "Return its gradient. If it should have none, detach the input before apply().",
        severity="warning",
    )
