"""A symmetric matrix of which forward reads one triangle: the symmetric parts of gradients are compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from test_verify_steps import made, normal

import backsight as bs

ROOT = normal(4, 4)
MATRIX = ROOT @ ROOT.mT + torch.eye(4)
TOLD = "Forward reads one triangle of `x`: the symmetric parts of the gradients are compared."


def likelihood(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    lower = torch.linalg.cholesky(x)
    return 0.5 * y @ torch.cholesky_solve(y[:, None], lower)[:, 0] + lower.diagonal().log().sum()


def likelihood_back(sign: int, triangle: bool = False) -> Callable[..., Any]:
    def backward(g: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> Any:
        inverse = torch.linalg.inv(x)
        alpha = inverse @ y
        of_x = sign * 0.5 * g * (inverse - torch.outer(alpha, alpha))
        return 2 * of_x.tril() - of_x.diagonal().diag() if triangle else of_x, g * alpha

    return backward


def logdet(x: torch.Tensor) -> torch.Tensor:
    return torch.linalg.eigvalsh(x).log().sum()


def logdet_back(sign: int) -> Callable[..., Any]:
    return lambda g, x: sign * g * torch.linalg.inv(x)


WRONG = [
    (likelihood, likelihood_back(-1), (MATRIX, normal(4))),
    (likelihood, likelihood_back(-1, triangle=True), (MATRIX, normal(4))),
    (logdet, logdet_back(-1), (MATRIX,)),
]
RIGHT = [
    (likelihood, likelihood_back(1), (MATRIX, normal(4))),
    (likelihood, likelihood_back(1, triangle=True), (MATRIX, normal(4))),
    (logdet, logdet_back(1), (MATRIX,)),
]


@pytest.mark.parametrize(("forward", "backward", "inputs"), WRONG)
def test_a_wrong_sign_beside_a_triangle(forward: Any, backward: Any, inputs: Any) -> None:
    (finding,) = bs.verify(made(forward, backward), *inputs).findings
    assert finding.code == "BS403"
    assert finding.evidence[-1] == TOLD


@pytest.mark.parametrize(("forward", "backward", "inputs"), RIGHT)
def test_a_symmetric_gradient_and_that_of_the_triangle_are_right(forward: Any, backward: Any, inputs: Any) -> None:
    assert bs.verify(made(forward, backward), *inputs).ok


def test_where_both_triangles_are_read_all_of_the_gradient_is_compared() -> None:
    wrong = made(lambda x: (x.sin() * ROOT).sum(), lambda g, x: g * x.cos() * (ROOT + ROOT.mT) / 2)
    findings = bs.verify(wrong, MATRIX).findings
    assert findings and not any(TOLD in each.evidence for each in findings)
