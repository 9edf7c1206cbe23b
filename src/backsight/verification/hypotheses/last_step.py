"""BS416, in particular: the derivative of forward's last step, an activation, is left out."""

from __future__ import annotations

import torch

from backsight.verification.case import Case
from backsight.verification.hypotheses.explanation import Explanation
from backsight.verification.steps import last_step


def missing_last_step(case: Case) -> Explanation | None:
    """Backward is right for grad_output times the derivative of an activation, as its output tells that.

    None of these derivatives is zero anywhere: of a ReLU this would say nothing where its gradient is masked anyway.
    """
    if not case.single:
        return None
    y, last = case.output, _last(case)
    steps = {
        "(1 - output**2)": ("tanh", "tanh", 1 - y * y),
        "output * (1 - output)": ("a sigmoid", "sigmoid", y * (1 - y)),
        "output": ("exp", "exp", y),
    }
    for factor, (activation, name, derivative) in steps.items():
        if last != name or not bool(torch.isfinite(derivative).all()) or bool((derivative == 1).all()):
            continue
        passed = [case.backward([draw.u * derivative]) for draw in case.draws]
        if all(
            g is not None and bool(case.equal(case.at(g), draw.right).all())
            for g, draw in zip(passed, case.draws, strict=True)
        ):
            name = case.grad_output
            return Explanation(
                f"{case.subject} leaves out the derivative of the last step, {activation}, for `{case.argument}`.",
                (
                    f"With {name} * {factor} instead of {name} every entry is right: that is the derivative of "
                    f"{activation}, in terms of its output.",
                    "The chain rule goes through all steps of forward, the last one first.",
                ),
                f"Start backward with `{name} = {name} * {factor}`, output being what forward returned.",
            )
    return None


def _last(case: Case) -> str:
    """What forward does last, as far as PyTorch sees it."""
    try:
        return last_step(case.run, case.input)
    except Exception:  # the user's forward, outside of its Function
        return ""
