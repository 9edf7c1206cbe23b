"""One step of forward is differentiated wrongly: forward run again by autograd, that step altered, says the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import torch

from backsight.verification.case import Case, Known
from backsight.verification.directions import drawn, size_of
from backsight.verification.hypotheses.completed import completed
from backsight.verification.hypotheses.cross_terms import missing_cross_terms
from backsight.verification.hypotheses.explanation import Explanation
from backsight.verification.hypotheses.factor import of_forward
from backsight.verification.hypotheses.sizes import NO_SIZE, Factor, drawn_for
from backsight.verification.hypotheses.sizes import told as of_sizes
from backsight.verification.point import Point
from backsight.verification.steps import Found, factor_of, found, repeated
from backsight.verification.steps.alterations import passed_on, without_cross_terms
from backsight.verification.steps.factors import other_factor
from backsight.verification.trial import pulled

FEWEST = 2
"""A single entry in a single draw is a factor of anything."""

BESIDE, CLOSE = 0.05, 1e-4
"""How far beside its values an input is moved, relative to their size, and how closely a gradient is then the same."""


def wrong_step(case: Case) -> Explanation | None:
    """A step can be wrong in all the ways in which a whole backward can, and so has the code of its mistake."""
    if len(case.draws) == 1 and case.shape.numel() < FEWEST:
        return None

    try:
        if not _is_forward(case):
            return None
        mistake = found(
            _forward(case),
            *_asked(case),
        )
    except Exception:  # the user's forward, outside of its Function
        return None
    if mistake is None or not _holds_beside(case, mistake):
        return None
    of_last = mistake.alteration.alter is without_cross_terms and mistake.step is mistake.steps[-1]
    whole = missing_cross_terms(case) if of_last else None
    return _explanation(case, mistake) if whole is None else replace(whole, code="BS415")


def _explanation(case: Case, mistake: Found) -> Explanation:
    title, evidence, fix = mistake.told(case.argument)
    factor = other_factor(mistake.step, mistake.operand) if mistake.alteration.alter is passed_on else ""
    if factor and (written := completed(case, factor)):
        fix = f"{written}: only this term is missing the factor `{factor}`."
    told = f"{case.subject} returns the gradient of `{case.argument}` {title}."
    sizes: list[str] = []
    if mistake.factor is not None:
        sizes, constant, _ = of_sizes(case, mistake.factor, _factor(case, mistake))
        if constant and (number := of_forward(case, mistake.factor, _factor(case, mistake))):
            sizes = [*(each for each in sizes if each != NO_SIZE), number.told]
    return Explanation(told, (evidence, *sizes), fix, code=mistake.alteration.code, cause=mistake)


def also(case: Case, mistake: Found) -> Explanation | None:
    """Explain a gradient by the mistake that was found in that of another input, if it is the same."""
    try:
        same = repeated(mistake, _forward(case), *_asked(case))
    except Exception:  # the user's forward, outside of its Function
        return None
    return _explanation(case, same) if same is not None else None


def _forward(case: Case) -> Callable[[torch.Tensor], Sequence[torch.Tensor]]:
    def forward(x: torch.Tensor) -> Sequence[torch.Tensor]:
        made = case.run(x)
        assert made is not None  # as it was when it was held against the right gradient
        return made

    return forward


def _holds_beside(case: Case, mistake: Found) -> bool:
    """Whether a mistake explains the gradient at values beside these, too: of many candidates one may fit by chance."""
    if mistake.again is None or Known.BACKWARD not in case.known:
        return True
    generator, there = torch.Generator().manual_seed(0), copy(case)
    try:
        inputs = [each + BESIDE * size_of(each) * drawn(each, generator) for each in case.point.inputs]
        there.point = case.point.at(inputs)
        us = drawn_for(case, there.point, generator)
        given = pulled(there.point, us).gradients[case.number]
        assert given is not None
        size = float(given.abs().max())

        def is_given(_: int, gradient: torch.Tensor) -> bool:
            return torch.allclose(gradient, given, rtol=CLOSE, atol=CLOSE * size)

        seen = [[us[k] for k in case.outputs]]
        same = repeated(mistake, _forward(there), there.input, seen, [given], is_given, _arguments(there))
    except Exception:  # the function leaves its domain there: nothing can be said
        return True
    return same is not None


def _factor(case: Case, mistake: Found) -> Factor:
    """Return how the factor of a mistake is measured at another point."""

    def measured(point: Point) -> float | None:
        there = copy(case)
        there.point = point
        us = drawn_for(case, point, torch.Generator().manual_seed(0))
        given = pulled(point, us).gradients[case.number]
        seen = [us[k] for k in case.outputs]
        return None if given is None else factor_of(mistake, _forward(there), there.input, seen, given)

    return measured


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


def _asked(case: Case) -> tuple[Any, ...]:
    """What the search is about: the input, the draws and what was returned for them, and what is known by name."""
    us, given = [draw.us for draw in case.draws], [draw.got for draw in case.draws]
    return case.input, us, given, lambda k, each: bool(case.equal(each, given[k]).all()), _arguments(case)


def _arguments(case: Case) -> dict[str, torch.Tensor]:
    values = enumerate(case.point.values)
    return {case.operation.argument(k): each for k, each in values if isinstance(each, torch.Tensor)}
