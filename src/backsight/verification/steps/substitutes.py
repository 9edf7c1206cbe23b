"""One tensor of a derivative is another: an output that it is written in terms of, an index, the entries of a sum."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch

from backsight.verification.steps.alterations import OF_OUTPUT, with_output
from backsight.verification.steps.pull import pulled
from backsight.verification.steps.step import INDICES, Step

Other = Callable[[Step, torch.Tensor], torch.Tensor | None]
"""Makes a step whose derivative has another tensor in one place; None where that does not apply."""


class Form(NamedTuple):
    """A derivative in terms of the output, where another tensor stands for the output: `where` in words."""

    where: str
    alter: Other


def forms(step: Step) -> Iterator[Form]:
    """Yield the places of a derivative where its output stands: all of them, then each alone."""
    if step.name in OF_OUTPUT:
        yield Form("its output", lambda each, other: with_output(each, 0, other))
    formula, slopes = _IN_PARTS.get(step.name, ("", ()))
    for k, slope in enumerate(slopes):
        where = f"{('the first', 'the second', 'the third')[k]} y" if len(slopes) > 1 else "one y"
        yield Form(f"{where} of {formula}", _with_slope(slope))
    if step.name in _WHOLE:
        yield Form("its output", _WHOLE[step.name])


def _with_slope(slope: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> Other:
    def alter(step: Step, other: torch.Tensor) -> torch.Tensor | None:
        x, y = step.operand(0), step.result.detach()
        if x is None or other.shape != y.shape or other.dtype != y.dtype:
            return None
        return y + slope(y, other.detach()) * (x - x.detach())

    return alter


_Slope = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
_IN_PARTS: dict[str, tuple[str, Sequence[_Slope]]] = {
    "sigmoid": ("y * (1 - y)", (lambda y, z: z * (1 - y), lambda y, z: y * (1 - z))),
    "tanh": ("1 - y * y", (lambda y, z: 1 - y * z,)),
    "rsqrt": ("-y * y * y / 2", (lambda y, z: -0.5 * y * y * z,)),
    "reciprocal": ("-y * y", (lambda y, z: -y * z,)),
    "tan": ("1 + y * y", (lambda y, z: 1 + y * z,)),
}
"""A derivative in terms of the output y, and with another tensor in place of one y."""


def _of_solve(step: Step, other: torch.Tensor) -> torch.Tensor | None:
    """A⁻¹ (dB - dA X), with another X."""
    if step.kwargs or len(step.args) != 2 or other.shape != step.result.shape or other.dtype != step.result.dtype:
        return None
    a, b = step.args
    made: torch.Tensor = step.function(a.detach(), b - (a - a.detach()) @ other.detach())
    return made


def _of_triangular_solve(step: Step, other: torch.Tensor) -> torch.Tensor | None:
    if set(step.kwargs) != {"upper"} or len(step.args) != 2 or other.shape != step.result.shape:
        return None
    a, b = step.args
    change = a - a.detach()
    change = change.triu() if step.kwargs["upper"] else change.tril()
    made: torch.Tensor = step.function(a.detach(), b - change @ other.detach(), **step.kwargs)
    return made


def _of_inverse(step: Step, other: torch.Tensor) -> torch.Tensor | None:
    """-Y dA Y, with another Y."""
    a, y = step.args[0], other.detach()
    if other.shape != step.result.shape or other.dtype != step.result.dtype:
        return None
    made: torch.Tensor = step.result.detach() - y @ (a - a.detach()) @ y
    return made


def _of_quotient(step: Step, other: torch.Tensor) -> torch.Tensor | None:
    """(da - y db) / b, with another y."""
    if len(step.args) != 2 or step.operand(1) is None or other.shape != step.result.shape:
        return None
    a, b = step.args
    over = a - a.detach() if isinstance(a, torch.Tensor) else 0
    made: torch.Tensor = step.result.detach() + (over - other.detach() * (b - b.detach())) / b.detach()
    return made


_WHOLE: dict[str, Other] = {
    "linalg_solve": _of_solve,
    "linalg_solve_triangular": _of_triangular_solve,
    "linalg_inv": _of_inverse,
    "inverse": _of_inverse,
    **dict.fromkeys(("div", "truediv", "true_divide"), _of_quotient),
}


def indices(step: Step) -> list[torch.Tensor]:
    """Return the tensors of integers that a step is given, those in a tuple too, as in `x[rows, columns]`."""
    return [
        each for given in step.args for each in (given if isinstance(given, tuple) else (given,)) if _is_index(each)
    ]


def at_index(step: Step, which: int, other: torch.Tensor) -> torch.Tensor | None:
    """What a step returns with another tensor of integers in place of one of `indices`."""
    old = indices(step)[which]
    if other.shape != old.shape or other.dtype != old.dtype:
        return None
    args = [
        tuple(other if each is old else each for each in given) if isinstance(given, tuple) else given
        for given in (other if given is old else given for given in step.args)
    ]
    made: torch.Tensor = step.function(*args, **step.kwargs)
    return made if made.shape == step.result.shape else None


def derived_at_index(step: Step, which: int, other: torch.Tensor) -> torch.Tensor | None:
    """A step whose derivative has another tensor of integers."""
    made = at_index(step, which, other)
    return None if made is None else step.with_derivative_of(made)


def _is_index(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype in INDICES


class Summed(NamedTuple):
    """An operand of a step that is a sum or a mean over the other one: which of them, and whether it is a mean."""

    number: int
    of: int
    mean: bool


def summed(step: Step) -> Summed | None:
    """Return which operand of a step sums the other one up, over rows or segments."""
    for number, of in ((1, 0), (0, 1)):
        total, x = step.operand(number), step.operand(of)
        if total is None or x is None or x.shape != step.result.shape or x.dtype != total.dtype or x.is_complex():
            continue
        try:
            spread = total.expand(x.shape)
        except RuntimeError:  # it does not broadcast
            continue
        with torch.enable_grad():
            (same,) = torch.autograd.grad(spread, x, x.detach(), retain_graph=True, allow_unused=True)
            (ones,) = torch.autograd.grad(spread, x, torch.ones_like(x), retain_graph=True, allow_unused=True)
        # A sum over classes of entries is its own transpose.
        if same is not None and torch.allclose(same, spread.detach(), rtol=1e-6, atol=1e-12):
            return Summed(number, of, bool(torch.allclose(ones, torch.ones_like(ones))))
    return None


def over(dims: tuple[int, ...], known: Summed) -> Callable[[Step, int], torch.Tensor | None]:
    """The derivative of that operand is that of a sum, or a mean, over other entries."""

    def alter(step: Step, _: int) -> torch.Tensor | None:
        x, total = step.args[known.of], step.args[known.number].detach()
        other = x.mean(dims, keepdim=True) if known.mean else x.sum(dims, keepdim=True)
        return step.with_operand(known.number, total.expand(x.shape) + (other - other.detach()))

    return alter


def normalized_over(dims: tuple[int, ...], known: Summed) -> Callable[[Step, int], torch.Tensor | None]:
    """The derivative of a quotient by a sum, (u - sum(u y)) / b, with a sum over other entries."""

    def alter(step: Step, _: int) -> torch.Tensor | None:
        if known != Summed(1, 0, False) or step.name not in ("div", "truediv", "true_divide"):
            return None
        x, divisor, y = step.args[0], step.args[1].detach(), step.result.detach()
        return pulled(y, x, lambda u: (u - (u * y).sum(dims, keepdim=True)) / divisor)

    return alter
