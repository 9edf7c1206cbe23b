"""How a step may be differentiated wrongly: each makes another result of it, of the same values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from backsight.verification.steps.pull import Pull, pulled
from backsight.verification.steps.step import Step


def constant(step: Step, number: int) -> torch.Tensor | None:
    """The whole result is a number."""
    return step.result.detach() if number == 0 else None


def left_out(step: Step, number: int) -> torch.Tensor | None:
    """One operand of several is a number."""
    x = step.operand(number)
    several = sum(isinstance(each, torch.Tensor) for each in step.args) > 1  # in each run of a loop, the first one too
    return step.with_operand(number, x.detach()) if x is not None and several else None


def passed_on(step: Step, number: int) -> torch.Tensor | None:
    """The derivative with respect to an operand is 1, in each of its copies where it is broadcast."""
    x = step.operand(number)
    if x is None or not _broadcasts(x.shape, step.result.shape) or x.dtype != step.result.dtype:
        return None
    return step.with_operand(number, x.detach()) + (x - x.detach())


def _broadcasts(shape: torch.Size, whole: torch.Size) -> bool:
    """Whether a shape is repeated to another, or is it."""
    behind = whole[len(whole) - len(shape) :]
    return len(shape) <= len(whole) and all(own in (1, size) for own, size in zip(shape, behind, strict=True))


def negated(step: Step, number: int) -> torch.Tensor | None:
    """The derivative has the other sign."""
    return _times(step, number, -1)


def summed(step: Step, number: int) -> torch.Tensor | None:
    """A mean is differentiated as if it were a sum."""
    x = step.operand(number)
    averages = step.name in ("mean", "var", "std") or "pool" in step.name
    if x is None or not averages or not step.result.numel():
        return None
    return _times(step, number, x.numel() / step.result.numel())


def averaged(step: Step, number: int) -> torch.Tensor | None:
    """A sum is differentiated as if it were a mean."""
    x = step.operand(number)
    return _times(step, number, step.result.numel() / x.numel()) if x is not None and step.name == "sum" else None


def skipped(step: Step, number: int) -> torch.Tensor | None:
    """The step is not made at all: neither its values nor its derivative."""
    x = step.operand(number)
    if step.name in _ARRANGING:
        return None
    return x if x is not None and x.shape == step.result.shape and x.dtype == step.result.dtype else None


def value_skipped(step: Step, number: int) -> torch.Tensor | None:
    """What follows is differentiated at the value before the step, whose own derivative is there."""
    x = skipped(step, number)
    return None if x is None else x.detach() + (step.result - step.result.detach())


def of_transposed(step: Step, number: int) -> torch.Tensor | None:
    """The gradient that arrives at a product of matrices is transposed, or is not where it must be."""
    x, y = step.operand(number), step.result
    if x is None or step.name not in ("matmul", "mm", "bmm") or y.dim() < 2 or y.shape[-1] != y.shape[-2]:
        return None
    pull = Pull(step, number, x)
    return pulled(step.with_operand(number, x.detach()), x, lambda u: pull(u.mT))


def not_arranged(step: Step, number: int) -> torch.Tensor | None:
    """A transpose is left out."""
    x = step.operand(0)
    arranged = not number and step.name in _ARRANGING
    return x if arranged and x is not None and x.shape == step.result.shape else None


def divisor_not_squared(step: Step, number: int) -> torch.Tensor | None:
    """The derivative of a / b with respect to b as -a / b."""
    if number != 1 or step.name not in ("div", "truediv", "true_divide"):
        return None
    b = step.operand(1)
    return None if b is None else _plus(step, 1, -step.result.detach() * (b - b.detach()))


def reshaped(step: Step, number: int) -> torch.Tensor | None:
    """Dimensions are exchanged in forward, and the gradient only gets the shape of the input."""
    x = step.operand(0)
    if number or x is None or x.numel() != step.result.numel() or step.name not in _ARRANGING:
        return None
    return pulled(step.result.detach(), x, lambda u: u.reshape(x.shape))


def softmax_along_another_dimension(step: Step, number: int) -> torch.Tensor | None:
    """The sum in the derivative of a softmax runs over the wrong dimension."""
    x, y = step.operand(0), step.result.detach()
    dim = step.args[1] if len(step.args) > 1 else step.kwargs.get("dim")
    others = [d for d in range(y.dim()) if isinstance(dim, int) and d != dim % y.dim()]
    if x is None or number >= len(others) or step.name not in ("softmax", "log_softmax"):
        return None
    other = others[number]
    if step.name == "softmax":
        return pulled(y, x, lambda u: y * (u - (u * y).sum(other, keepdim=True)))
    return pulled(y, x, lambda u: u - y.exp() * u.sum(other, keepdim=True))


def without_cross_terms(step: Step, number: int) -> torch.Tensor | None:
    """The diagonal of a Jacobian alone: of a softmax, or of what is divided by, multiplied by or less its own sum."""
    if number:
        return None
    y = step.result.detach()
    if step.name in ("softmax", "log_softmax"):
        x = step.operand(0)
        slope = y * (1 - y) if step.name == "softmax" else 1 - y.exp()
        return None if x is None or x.shape != y.shape else _with_slope(step, x, slope)
    if step.name in _WITH_SUMS:
        return _on_the_diagonal(step)
    own = _with_own_sum(step, 0)
    return _with_own_sum(step, 1) if own is None else own


def _with_own_sum(step: Step, which: int) -> torch.Tensor | None:
    """`x / norm(x)`: each entry of the second is made of those of one row."""
    x, total = step.operand(which), step.operand(1 - which)
    slopes = _BY_OPERATION.get(step.name)
    if slopes is None or x is None or total is None or len(step.args) != 2 or x.shape != step.result.shape:
        return None
    if total.dim() != x.dim() or any(a not in (1, b) for a, b in zip(total.shape, x.shape, strict=True)):
        return None
    if total.numel() == x.numel() or x.is_complex() or (which and step.name != "mul"):
        return None
    weights = torch.arange(1, total.numel() + 1, dtype=total.dtype, device=total.device).reshape(total.shape)
    own: Any = torch.autograd.grad(total, x, torch.ones_like(total), retain_graph=True, allow_unused=True)[0]
    if own is None:
        return None
    (weighted,) = torch.autograd.grad(total, x, weights, retain_graph=True)
    if not torch.allclose(weighted, weights * own):  # it is made of entries of other rows
        return None
    of_x, of_total = slopes(x.detach(), total.detach())
    slope = of_x + of_total * own
    # Of x less its mean the diagonal is one number: that is a factor.
    return None if bool((slope == slope.max()).all()) else _with_slope(step, x, slope)


def _on_the_diagonal(step: Step) -> torch.Tensor | None:
    x, y = step.operand(0), step.result
    if x is None or x.shape != y.shape or x.dtype != y.dtype or x.numel() > MOST_ON_DIAGONAL:
        return None
    pull, slope = Pull(step, 0, x), torch.zeros_like(y).reshape(-1)
    for k in range(slope.numel()):
        one = torch.zeros_like(slope)
        one[k] = 1
        slope[k] = pull(one.reshape(y.shape)).reshape(-1)[k]
    return _with_slope(step, x, slope.reshape(y.shape).detach())


def input_for_output(step: Step, number: int) -> torch.Tensor | None:
    """A derivative that is written in terms of the output, with the input in its place."""
    slope, x = OF_OUTPUT.get(step.name), step.operand(0)
    if step.name == "softmax" and x is not None and not number:
        dim, values = step.args[1] if len(step.args) > 1 else step.kwargs["dim"], x.detach()
        return pulled(step.result.detach(), x, lambda u: values * (u - (u * values).sum(dim, keepdim=True)))
    return None if number or slope is None or x is None else _with_slope(step, x, slope(x.detach()))


def output_for_input(step: Step, number: int) -> torch.Tensor | None:
    """The derivative of an elementwise function, taken at its output."""
    x = step.operand(0)
    if number or x is None or (len(step.args) > 1 and isinstance(step.args[1], torch.Tensor)):
        return None
    if x.shape != step.result.shape or not x.is_floating_point() or step.name not in ELEMENTWISE:
        return None
    at = step.result.detach().requires_grad_()
    (slope,) = torch.autograd.grad(step.with_operand(0, at).sum(), at)
    return _with_slope(step, x, slope)


def result_for_slope(step: Step, number: int) -> torch.Tensor | None:
    """What an elementwise function returns, in place of its derivative: s for a sigmoid, where it is s * (1 - s).

    Nobody confuses it with the derivative of a sum with a number, or of a product with one, which is a number itself.
    """
    found = _own_slope(step, 1.0) if not number else None
    if found is None or (found[1].numel() > 1 and bool((found[1] == found[1].reshape(-1)[0]).all())):
        return None
    return _with_slope(step, found[0], step.result.detach())


def squared(step: Step, number: int) -> torch.Tensor | None:
    """The derivative of an elementwise function, squared."""
    found = _own_slope(step, 1.0) if not number else None
    return None if found is None else _with_slope(step, found[0], found[1] ** 2)


def inverted(step: Step, number: int) -> torch.Tensor | None:
    """One over the derivative of an elementwise function."""
    found = _own_slope(step, 1.0) if not number else None
    return None if found is None else _with_slope(step, found[0], 1 / found[1])


def on_the_other_side(step: Step, number: int) -> torch.Tensor | None:
    """The derivative of an elementwise function at minus its input: the sides of a ReLU exchanged."""
    found = _own_slope(step, -1.0) if not number else None
    return None if found is None else _with_slope(step, *found)


def _own_slope(step: Step, sign: float) -> tuple[torch.Tensor, torch.Tensor] | None:
    """Return the operand of an elementwise function of one tensor, and the derivative there, or at minus it."""
    x = step.operand(0)
    alone = sum(isinstance(each, torch.Tensor) for each in step.args) == 1
    if x is None or not alone or x.shape != step.result.shape or step.name not in ELEMENTWISE or x.is_complex():
        return None
    at = (sign * x.detach()).requires_grad_()
    (slope,) = torch.autograd.grad(step.with_operand(0, at).sum(), at)
    return x, slope


def exponent_kept(step: Step, number: int) -> torch.Tensor | None:
    """The derivative of a power without the exponent lowered: n xⁿ."""
    x, n = step.operand(0), exponent(step)
    return None if number or x is None or n is None else _with_slope(step, x, n * x.detach() ** n)


def exponent_left_out(step: Step, number: int) -> torch.Tensor | None:
    """The derivative of a power without its factor: xⁿ⁻¹."""
    x, n = step.operand(0), exponent(step)
    return None if number or x is None or n is None else _with_slope(step, x, x.detach() ** (n - 1))


def not_transposed(step: Step, number: int) -> torch.Tensor | None:
    """The derivative itself where its transpose is right: a shift, a kernel or a matrix turned as in forward."""
    x = step.operand(number)
    if x is None or x.shape != step.result.shape or x.dtype != step.result.dtype or step.name in ELEMENTWISE:
        return None
    pull = Pull(step, number, x)
    return pulled(step.with_operand(number, x.detach()), x, lambda u: pull.push(u.contiguous()))


def unconjugated(step: Step, number: int) -> torch.Tensor | None:
    """The derivative without its conjugate."""
    x = step.operand(number)
    if x is None or not x.is_complex():
        return None
    pull = Pull(step, number, x)
    return pulled(step.with_operand(number, x.detach()), x, lambda u: pull(u.conj()).conj())


def flipped(step: Step, number: int) -> torch.Tensor | None:
    """A kernel turned round, or not turned where it must be."""
    return _flipped(step, number, slice(None))


def flipped_in_the_last_dimension(step: Step, number: int) -> torch.Tensor | None:
    """A kernel turned in its last dimension alone."""
    return _flipped(step, number, slice(-1, None))


def flipped_in_the_first_dimension(step: Step, number: int) -> torch.Tensor | None:
    """A kernel turned in its first spatial dimension alone."""
    return _flipped(step, number, slice(1))


def _flipped(step: Step, number: int, which: slice) -> torch.Tensor | None:
    if not step.name.startswith("conv"):
        return None
    x, weight = step.operand(number), step.args[1]
    dims = tuple(range(2, weight.dim()))[which]
    if x is None or number > 1:
        return None
    turned = (step.args[0], weight.detach().flip(dims)) if number == 0 else (step.args[0].detach(), weight)
    rest = step.args[2:]
    if number == 1:
        pull = Pull(step, 1, weight)
        return pulled(step.with_operand(1, weight.detach()), weight, lambda u: pull(u).flip(dims))
    other: torch.Tensor = step.function(turned[0], turned[1], *rest, **step.kwargs)
    plain = step.with_operand(0, x.detach())
    return plain + (other - other.detach())


def overwritten(step: Step, number: int) -> torch.Tensor | None:
    """Where an index is repeated, the last gradient is kept and the others are lost."""
    x = step.operand(number)
    if x is None or step.name not in INDEXING:
        return None
    places = torch.arange(x.numel(), device=x.device).reshape(x.shape)
    chosen = step.function(
        *[places if k == number else _plain(each) for k, each in enumerate(step.args)], **step.kwargs
    )

    def pull(u: torch.Tensor) -> torch.Tensor:
        last = torch.zeros_like(x).reshape(-1)
        last[chosen.reshape(-1)] = u.reshape(-1)
        return last.reshape(x.shape)

    return pulled(step.result.detach(), x, pull)


def along_another_dimension(step: Step, number: int) -> torch.Tensor | None:
    """A reduction whose gradient is spread along another dimension of the same size, or with keepdim on another."""
    x = step.operand(0)
    if number or x is None or x.dim() != 2 or step.name not in ("sum", "mean", "amax", "amin", "norm", "logsumexp"):
        return None
    y = step.result
    if y.numel() != x.shape[0] or x.shape[0] != x.shape[1]:
        return None
    pull = Pull(step, 0, x)
    return pulled(y.detach(), x, lambda u: pull(u).mT)


def exclusive(step: Step, number: int) -> torch.Tensor | None:
    """A running sum without the entry itself."""
    x = step.operand(0)
    if number or x is None or step.name != "cumsum":
        return None
    other = step.result - x
    return step.with_derivative_of(other)


def exclusive_and_not_transposed(step: Step, number: int) -> torch.Tensor | None:
    """A running sum without the entry itself, from the wrong end."""
    x = step.operand(0)
    if number or x is None or step.name != "cumsum":
        return None
    pull = Pull(step, 0, x)
    return pulled(step.result.detach(), x, lambda u: pull.push(u.contiguous()) - u)


def exchanged(step: Step, number: int) -> torch.Tensor | None:
    """The derivatives of two operands exchanged."""
    first = 1 if step.name == "where" else 0
    a, b = step.operand(first), step.operand(first + 1)
    if number or a is None or b is None or a.shape != b.shape:
        return None
    apply: Any = _Exchanged.apply
    made: torch.Tensor = step.function(*step.args[:first], *apply(a, b), *step.args[first + 2 :], **step.kwargs)
    return made


def on_the_other_condition(step: Step, number: int) -> torch.Tensor | None:
    """The gradient goes where the condition of a torch.where does not hold."""
    a, b = step.operand(1), step.operand(2)
    if number or step.name != "where" or (a is None and b is None):
        return None
    turned: torch.Tensor = step.function(~step.args[0], step.args[1], step.args[2], **step.kwargs)
    return step.with_derivative_of(turned)


def two_sided(step: Step, number: int) -> torch.Tensor | None:
    """The one-sided spectrum of a real signal, differentiated as if it were the whole."""
    x, n = step.operand(0), step.result.shape[-1]
    if (
        number
        or x is None
        or step.name not in ("fft_rfft", "fft_irfft")
        or len(step.args) > 1
        or set(step.kwargs) - {"n"}
    ):
        return None
    if step.name == "fft_rfft":
        size = x.shape[-1]
        return pulled(step.result.detach(), x, lambda u: torch.fft.irfft(u, n=size) * size)
    return pulled(step.result.detach(), x, lambda u: torch.fft.rfft(u) / n)


class _Exchanged(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> Any:
        return a.clone(), b.clone()

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return grads[1], grads[0]


def _times(step: Step, number: int, factor: float) -> torch.Tensor | None:
    x = step.operand(number)
    if x is None:
        return None
    return step.with_operand(number, x.detach() + factor * (x - x.detach()))


def _plus(step: Step, number: int, line: torch.Tensor) -> torch.Tensor:
    """The step with another derivative with respect to one operand: that of a line of the value 0."""
    x = step.operand(number)
    assert x is not None
    return step.with_operand(number, x.detach()) + line


def _with_slope(step: Step, x: torch.Tensor, slope: torch.Tensor) -> torch.Tensor:
    return step.result.detach() + slope * (x - x.detach())


def _plain(value: Any) -> Any:
    return value.detach() if isinstance(value, torch.Tensor) else value


def exponent(step: Step) -> float | None:
    """Return the exponent of a power, which is 2 where a tensor is multiplied by itself."""
    if step.name == "mul" and len(step.args) == 2 and step.args[0] is step.args[1]:
        return 2
    if step.name == "square":
        return 2
    powers = step.name in ("pow", "rpow") and len(step.args) > 1
    return step.args[1] if powers and isinstance(step.args[1], int | float) else None


# fmt: off
ELEMENTWISE = frozenset({
    "tanh", "sigmoid", "exp", "sqrt", "rsqrt", "reciprocal", "expm1", "softplus", "tan", "sin", "cos", "log",
    "log1p", "log2", "square", "pow", "abs", "relu", "leaky_relu", "elu", "selu", "silu", "gelu", "mish",
    "hardtanh", "hardswish", "softsign", "atan", "asin", "acos", "sinh", "cosh", "asinh", "atanh", "erf",
    "erfc", "erfinv", "sinc", "logit", "mul", "add", "sub", "div", "truediv", "rsub", "neg", "rtruediv", "rpow",
    "true_divide", "xlogy", "atan2", "clamp", "clamp_min", "clamp_max", "lgamma",
})
INDEXING = frozenset({
    "getitem", "index_select", "gather", "embedding", "take", "take_along_dim", "unfold", "expand", "expand_as",
    "broadcast_to", "repeat", "tile", "repeat_interleave",
})
_ARRANGING = frozenset({
    "transpose", "permute", "movedim", "swapaxes", "t", "flip", "roll", "pixel_shuffle", "rot90", "T", "mT",
})
# fmt: on

_WITH_SUMS = frozenset({"normalize", "layer_norm", "rms_norm", "group_norm", "batch_norm", "instance_norm"})

MOST_ON_DIAGONAL = 256
"""Of larger results the diagonal of the Jacobian is not computed, entry by entry."""

_BY_OPERATION: dict[str, Callable[[torch.Tensor, torch.Tensor], tuple[Any, Any]]] = {
    **dict.fromkeys(("div", "truediv", "true_divide"), lambda x, total: (1 / total, -x / total**2)),
    "mul": lambda x, total: (total, x),
    "sub": lambda x, total: (1, -1),
}
"""The slopes of `x / total`, `x * total` and `x - total`."""

OF_OUTPUT: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "tanh": lambda y: 1 - y * y,
    "sigmoid": lambda y: y * (1 - y),
    "exp": lambda y: y,
    "sqrt": lambda y: 0.5 / y,
    "rsqrt": lambda y: -0.5 * y**3,
    "reciprocal": lambda y: -y * y,
    "expm1": lambda y: y + 1,
    "softplus": lambda y: 1 - (-y).exp(),
    "tan": lambda y: 1 + y * y,
}


def without(step: Step, number: int) -> torch.Tensor | None:
    """The step with one operand taken for a number."""
    x = step.operand(number)
    return None if x is None else step.with_operand(number, x.detach())


def with_stand_in(step: Step, number: int, other: torch.Tensor) -> torch.Tensor | None:
    """The derivatives of a step taken at another value of one operand."""
    old = step.args[number] if number < len(step.args) else None
    if not isinstance(old, torch.Tensor) or old.shape != other.shape or old.dtype != other.dtype:
        return None
    moved = other.detach() + (old - old.detach())
    if step.name in ("mul", "matmul", "mm", "bmm") and number < 2:  # only the derivative of the other operand has it
        mine = step.with_operand(1 - number, _plain(step.args[1 - number]))
        theirs = step.with_operand(number, other.detach())
        return mine + (theirs - theirs.detach())
    made = step.with_operand(number, moved)
    return step.with_derivative_of(made)


def with_output(step: Step, number: int, other: torch.Tensor) -> torch.Tensor | None:
    """The derivative of a step in terms of its output, with another tensor in place of that."""
    slope, x = OF_OUTPUT.get(step.name), step.operand(0)
    if number or slope is None or x is None or other.shape != x.shape or other.dtype != x.dtype:
        return None
    return _with_slope(step, x, slope(other.detach()))
