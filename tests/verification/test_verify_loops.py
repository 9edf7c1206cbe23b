"""Backwards through a loop: the state of another run, some runs left out, the wrong order."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from test_verify_steps import made, normal

import backsight as bs


def states(x: torch.Tensor, w: torch.Tensor) -> list[torch.Tensor]:
    h = torch.zeros_like(x[0])
    found = [h]
    for row in x:
        h = torch.tanh(row + h @ w)
        found.append(h)
    return found


def cell(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.stack(states(x, w)[1:])


def pulled(g: torch.Tensor, x: torch.Tensor, w: torch.Tensor, behind: int = 0, only: bool = False) -> Any:
    """The gradients of the cell; the state is that of so many runs later, or no gradient goes on."""
    h, of_x, of_w, later = states(x, w), [], torch.zeros_like(w), torch.zeros_like(x[0])
    for t in reversed(range(len(x))):
        d = (g[t] + later) * (1 - h[t + 1] ** 2)
        of_x.append(d)
        of_w = of_w + h[max(t + behind, 0)].mT @ d
        later = torch.zeros_like(d) if only else d @ w.mT
    return torch.stack(of_x[::-1]), of_w


def average(x: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
    h, found = x[0], [x[0]]
    for row in x[1:]:
        h = a * h + row.sin()
        found.append(h)
    return torch.stack(found)


def last_alone(g: torch.Tensor, x: torch.Tensor, a: torch.Tensor) -> Any:
    of_x = torch.zeros_like(x)
    of_x[-1] = g[-1] * x[-1].cos()
    return of_x, (g[-1] * average(x, a)[-2]).sum(-1)


CASES = [
    (1, "taken from its own run of the loop, not from the previous one"),
    (-1, "taken from two runs before, and not from one"),
]


@pytest.mark.parametrize(("behind", "title"), CASES)
def test_the_state_of_another_run_is_told(behind: int, title: str) -> None:
    wrong = made(cell, lambda g, x, w: pulled(g, x, w, behind))
    (finding,) = bs.verify(wrong, normal(4, 2, 3), normal(3, 3)).findings
    assert finding.code == "BS416"
    assert title in finding.title
    assert finding.evidence[0].startswith("It is the result of tanh in `h = torch.tanh(row + h @ w)`")


def test_a_gradient_that_does_not_go_back_through_the_loop_is_told_once() -> None:
    wrong = made(cell, lambda g, x, w: pulled(g, x, w, only=True))
    (finding,) = bs.verify(wrong, normal(4, 2, 3), normal(3, 3)).findings
    assert "as if the first operand of the matrix product in `h = torch.tanh(row + h @ w)` were" in finding.title


def test_runs_that_are_left_out_are_told() -> None:
    findings = bs.verify(made(average, last_alone), normal(5, 3), torch.tensor(0.6)).findings
    title = next(each.title for each in findings if each.input == "more[0]")
    assert "were a constant in all but the last of its 4 runs" in title
    (mask,) = (each for each in findings if each.input == "x")
    assert mask.evidence[0].startswith("It stops the gradient at 12 of 15 entries, all of rows 0, 1, 2, 3, where")


def test_a_loop_that_assigns_where_it_must_add_is_told_by_its_run() -> None:
    def forward(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        h = torch.zeros_like(x[0])
        for row in x:
            h = (row * w + h).sin()
        return h

    def backward(g: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> Any:
        inner, h = [], torch.zeros_like(g)
        for row in x:
            inner.append(row * w + h)
            h = inner[-1].sin()
        of_x = torch.zeros_like(x)
        for t in reversed(range(len(x))):
            g = g * inner[t].cos()
            of_x[t], of_w = g * w, g * x[t]
        return of_x, of_w

    (finding,) = bs.verify(made(forward, backward), normal(4, 3), normal(3)).findings
    assert "in `h = (row * w + h).sin()` were a constant in all but the first of its 4 runs" in finding.title


def test_gradients_in_the_order_of_the_loop_that_goes_back_are_told() -> None:
    def backward(g: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> Any:
        of_x, of_w = pulled(g, x, w)
        return of_x.flip(0), of_w

    (finding,) = bs.verify(made(cell, backward), normal(4, 2, 3), normal(3, 3)).findings
    assert finding.title.endswith("returns the gradient of `x` in reverse order along dimension 0.")


def test_a_right_backward_through_a_loop_is_not_accused() -> None:
    assert bs.verify(made(cell, pulled), normal(4, 2, 3), normal(3, 3)).ok


GATE = normal(5, 3).sigmoid().requires_grad_()


def scan(x: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
    h, found = torch.zeros_like(x[0]), []
    for t in range(len(x)):
        h = a[t] * h + x[t]
        found.append(h)
    return torch.stack(found)


def scanned(behind: int) -> Any:
    """The gradients of the scan; the gate is that of so many runs later."""

    def backward(g: torch.Tensor, x: torch.Tensor, a: torch.Tensor) -> Any:
        h, later, of_x, of_a = scan(x, a), torch.zeros_like(x[0]), torch.zeros_like(x), torch.zeros_like(a)
        for t in reversed(range(len(x))):
            later = g[t] + (a[min(t + 1 + behind, len(x) - 1)] * later if t + 1 < len(x) else 0)
            of_x[t] = later
            if t:
                of_a[t] = later * h[t - 1]
        return of_x, of_a

    return backward


@pytest.mark.parametrize(("behind", "way"), [(-1, "previous"), (1, "next")])
def test_what_each_run_makes_for_itself_and_is_taken_from_another_is_told(behind: int, way: str) -> None:
    (finding,) = bs.verify(made(scan, scanned(behind)), normal(5, 3).requires_grad_(), GATE).findings
    assert finding.title.endswith(
        f"the first operand of the product in `h = a[t] * h + x[t]` taken from the {way} run of the loop, and not from "
        "its own."
    )
    assert finding.input == "x, more[0]"


def test_a_right_scan_is_not_accused() -> None:
    assert bs.verify(made(scan, scanned(0)), normal(5, 3).requires_grad_(), GATE).ok
