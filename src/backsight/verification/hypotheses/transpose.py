"""BS405: a transpose is missing."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import torch

from backsight.verification.case import Candidate, Case, Draw
from backsight.verification.hypotheses.explanation import Explanation


def missing_transpose(case: Case) -> Explanation | None:
    """The gradient is right transposed, or is a product of two matrices of which one must be transposed."""
    for a, b in combinations(range(case.input.dim()), 2):
        if case.input.shape[a] == case.input.shape[b] > 1 and case.fits(_transposed(a, b)):
            return _of_itself(case, a, b)
    return _conjugated(case) if case.input.is_complex() else _of_product(case)


def _transposed(a: int, b: int) -> Candidate:
    return lambda draw: draw.got.transpose(a, b)


def _of_itself(case: Case, a: int, b: int) -> Explanation:
    plain = case.input.dim() == 2
    how = "" if plain else f" in dimensions {a} and {b}"
    evidence = (
        f"What it returns for `{case.argument}` is the transpose{how} of the right gradient.",
        "These dimensions have the same size, so no error is raised.",
    )
    return Explanation(_title(case), evidence, "Transpose it." if plain else f"Return it with .transpose({a}, {b}).")


def _conjugated(case: Case) -> Explanation | None:
    """For complex numbers autograd hands on grad_output times the conjugate of the derivative."""
    title = f"{case.subject} lacks a conjugate in the gradient of `{case.argument}`."
    rule = "For complex numbers, autograd passes on grad_output times the conjugate of the derivative."
    if case.fits(lambda draw: draw.got.conj()):
        return Explanation(title, ("What it returns is the conjugate of the right gradient.", rule), "Add .conj().")
    for position, other in enumerate(case.point.values):
        if isinstance(other, torch.Tensor) and other.is_complex() and case.fits(_with_conjugate(other)):
            name = case.operation.argument(position)
            evidence = (f"It is right with the conjugate of `{name}` instead of `{name}`.", rule)
            return Explanation(title, evidence, f"Multiply by {name}.conj().")
    return _of_product(case)


def _with_conjugate(other: torch.Tensor) -> Candidate:
    def candidate(draw: Draw) -> torch.Tensor | None:
        try:
            return draw.got / other * other.conj()
        except RuntimeError:  # it does not broadcast to the gradient
            return None

    return candidate


def _of_product(case: Case) -> Explanation | None:
    if not case.single or case.input.dim() < 2:
        return None
    products = list(_products(case))
    right = next((text for text, candidate in products if case.fits(candidate)), None)
    if right is None:
        return None
    got = next((text for text, candidate in products if _is(case, candidate)), None)
    if got is None or got == right:
        return None
    evidence = (
        f"What it returns for `{case.argument}` is {got}, and must be {right}.",
        "The matrices are square, so both have the shape of the input and no error is raised.",
    )
    return Explanation(_title(case), evidence, f"Return `{right}`.")


def _title(case: Case) -> str:
    return f"{case.subject} lacks a transpose in the gradient of `{case.argument}`."


def _products(case: Case) -> Iterator[tuple[str, Candidate]]:
    """Every product of grad_output and another argument, each transposed or not, in both orders."""
    name = case.grad_output
    for position, other in enumerate(case.point.values):
        if not isinstance(other, torch.Tensor) or other.dim() < 2 or other.dtype != case.input.dtype:
            continue
        known = case.operation.argument(position)
        for turned_u in (False, True):
            for turned in (False, True):
                u_text, text = name + ".T" * turned_u, known + ".T" * turned
                yield f"{u_text} @ {text}", _product(other, turned_u, turned, False)
                yield f"{text} @ {u_text}", _product(other, turned_u, turned, True)


def _product(other: torch.Tensor, turned_u: bool, turned: bool, swapped: bool) -> Candidate:
    def candidate(draw: Draw) -> torch.Tensor | None:
        if draw.u.dim() < 2 or draw.u.dtype != other.dtype:
            return None
        # Of a product with complex matrices the gradient is a product with conjugates.
        factors = [draw.u.mT if turned_u else draw.u, (other.mT if turned else other).conj()]
        if swapped:
            factors.reverse()
        if factors[0].shape[-1] != factors[1].shape[-2]:
            return None
        try:
            return factors[0] @ factors[1]
        except RuntimeError:  # batches that do not fit
            return None

    return candidate


def _is(case: Case, candidate: Candidate) -> bool:
    """Whether the backward returned just this."""
    for draw in case.draws:
        proposed = candidate(draw)
        if proposed is None or proposed.shape != draw.got.shape or not torch.allclose(proposed, draw.got, rtol=1e-6):
            return False
    return True
