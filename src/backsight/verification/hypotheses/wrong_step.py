"""One step of forward is differentiated wrongly: forward run again by autograd, that step altered, says the same."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from backsight.verification.case import Case
from backsight.verification.hypotheses.explanation import Explanation
from backsight.verification.steps import found

FEWEST = 2
"""A single entry in a single draw is a factor of anything."""


def wrong_step(case: Case) -> Explanation | None:
    """A step can be wrong in all the ways in which a whole backward can, and so has the code of its mistake."""
    if len(case.draws) == 1 and case.shape.numel() < FEWEST:
        return None

    def forward(x: torch.Tensor) -> Sequence[torch.Tensor]:
        made = case.run(x)
        assert made is not None  # as it was when it was held against the right gradient
        return made

    try:
        if not _is_forward(case):
            return None
        mistake = found(
            forward,
            case.input,
            [draw.us for draw in case.draws],
            [draw.got for draw in case.draws],
            lambda k, gradient: bool(case.equal(gradient, case.draws[k].got).all()),
            _arguments(case),
        )
    except Exception:  # the user's forward, outside of its Function
        return None
    if mistake is None:
        return None
    title, evidence, fix = mistake.told(case.argument)
    told = f"{case.subject} returns the gradient of `{case.argument}` {title}."
    return Explanation(told, (evidence,), fix, code=mistake.alteration.code)


def _is_forward(case: Case) -> bool:
    """Whether autograd, differentiating what forward does, finds the right gradient."""
    x = case.input.detach().clone().requires_grad_()
    with torch.enable_grad():
        outputs = case.run(x.clone())
        if outputs is None:
            return False
        for draw in case.draws:
            (gradient,) = torch.autograd.grad(outputs, x, draw.us, retain_graph=True)
            if not bool(case.equal(case.at(gradient), draw.right).all()):
                return False
    return True


def _arguments(case: Case) -> dict[str, torch.Tensor]:
    values = enumerate(case.point.values)
    return {case.operation.argument(k): each for k, each in values if isinstance(each, torch.Tensor)}
