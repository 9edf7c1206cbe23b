"""`ALTERATIONS`: how a step may be differentiated wrongly. A new mistake is one function and one row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from backsight.verification.steps.step import Step


class Alteration(NamedTuple):
    """A mistake in one operand of a step, with the words for it.

    In the words `{step}` is the step, and `{operand}` which of its operands, or its input where it has one;
    `{constant}` is "a constant", or "constants" where there are two steps.
    """

    code: str
    alter: Callable[[Step, int], torch.Tensor | None]
    title: str
    evidence: str
    fix: str


def constant(step: Step, number: int) -> torch.Tensor | None:
    """The whole result is a number."""
    return step.result.detach() if number == 0 else None


def left_out(step: Step, number: int) -> torch.Tensor | None:
    """One operand of several is a number."""
    x = step.operand(number)
    several = sum(step.operand(k) is not None for k in range(len(step.args))) > 1
    return step.with_operand(number, x.detach()) if x is not None and several else None


def passed_on(step: Step, number: int) -> torch.Tensor | None:
    """The derivative with respect to an operand is 1."""
    x = step.operand(number)
    if x is None or x.shape != step.result.shape or x.dtype != step.result.dtype:
        return None
    return step.with_operand(number, x.detach()) + (x - x.detach())


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
    pull: Any = torch.func.vjp(lambda t: step.with_operand(number, t), x.detach())[1]
    return _pulled(step.with_operand(number, x.detach()), x, lambda u: pull(u.mT)[0])


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
    return _pulled(step.result.detach(), x, lambda u: u.reshape(x.shape))


def softmax_along_another_dimension(step: Step, number: int) -> torch.Tensor | None:
    """The sum in the derivative of a softmax runs over the wrong dimension."""
    x, y = step.operand(0), step.result.detach()
    dim = step.args[1] if len(step.args) > 1 else step.kwargs.get("dim")
    others = [d for d in range(y.dim()) if isinstance(dim, int) and d != dim % y.dim()]
    if x is None or number >= len(others) or step.name not in ("softmax", "log_softmax"):
        return None
    other = others[number]
    if step.name == "softmax":
        return _pulled(y, x, lambda u: y * (u - (u * y).sum(other, keepdim=True)))
    return _pulled(y, x, lambda u: u - y.exp() * u.sum(other, keepdim=True))


def input_for_output(step: Step, number: int) -> torch.Tensor | None:
    """A derivative that is written in terms of the output, with the input in its place."""
    slope, x = _OF_OUTPUT.get(step.name), step.operand(0)
    if step.name == "softmax" and x is not None and not number:
        dim, values = step.args[1] if len(step.args) > 1 else step.kwargs["dim"], x.detach()
        return _pulled(step.result.detach(), x, lambda u: values * (u - (u * values).sum(dim, keepdim=True)))
    return None if number or slope is None or x is None else _with_slope(step, x, slope(x.detach()))


def output_for_input(step: Step, number: int) -> torch.Tensor | None:
    """The derivative of an elementwise function, taken at its output."""
    x = step.operand(0)
    if number or x is None or (len(step.args) > 1 and isinstance(step.args[1], torch.Tensor)):
        return None
    if x.shape != step.result.shape or not x.is_floating_point() or step.name not in _ELEMENTWISE:
        return None
    at = step.result.detach().requires_grad_()
    (slope,) = torch.autograd.grad(step.with_operand(0, at).sum(), at)
    return _with_slope(step, x, slope)


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
    if x is None or not alone or x.shape != step.result.shape or step.name not in _ELEMENTWISE or x.is_complex():
        return None
    at = (sign * x.detach()).requires_grad_()
    (slope,) = torch.autograd.grad(step.with_operand(0, at).sum(), at)
    return x, slope


def exponent_kept(step: Step, number: int) -> torch.Tensor | None:
    """The derivative of a power without the exponent lowered: n xⁿ."""
    x, n = step.operand(0), _exponent(step)
    return None if number or x is None or n is None else _with_slope(step, x, n * x.detach() ** n)


def exponent_left_out(step: Step, number: int) -> torch.Tensor | None:
    """The derivative of a power without its factor: xⁿ⁻¹."""
    x, n = step.operand(0), _exponent(step)
    return None if number or x is None or n is None else _with_slope(step, x, x.detach() ** (n - 1))


def not_transposed(step: Step, number: int) -> torch.Tensor | None:
    """The derivative itself where its transpose is right: a shift, a kernel or a matrix turned as in forward."""
    x = step.operand(number)
    if x is None or x.shape != step.result.shape or x.dtype != step.result.dtype or step.name in _ELEMENTWISE:
        return None
    pull: Any = torch.func.vjp(lambda t: step.with_operand(number, t), x.detach())[1]
    push: Any = torch.func.vjp(lambda u: pull(u)[0], torch.zeros_like(x))[1]  # the transpose of a transpose
    return _pulled(step.with_operand(number, x.detach()), x, lambda u: push(u.contiguous())[0])


def unconjugated(step: Step, number: int) -> torch.Tensor | None:
    """The derivative without its conjugate."""
    x = step.operand(number)
    if x is None or not x.is_complex():
        return None
    pull: Any = torch.func.vjp(lambda t: step.with_operand(number, t), x.detach())[1]
    return _pulled(step.with_operand(number, x.detach()), x, lambda u: pull(u.conj())[0].conj())


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
        pull: Any = torch.func.vjp(lambda w: step.with_operand(1, w), weight.detach())[1]
        return _pulled(step.with_operand(1, weight.detach()), weight, lambda u: pull(u)[0].flip(dims))
    other: torch.Tensor = step.function(turned[0], turned[1], *rest, **step.kwargs)
    plain = step.with_operand(0, x.detach())
    return plain + (other - other.detach())


def overwritten(step: Step, number: int) -> torch.Tensor | None:
    """Where an index is repeated, the last gradient is kept and the others are lost."""
    x = step.operand(number)
    if x is None or step.name not in _INDEXING:
        return None
    places = torch.arange(x.numel(), device=x.device).reshape(x.shape)
    chosen = step.function(
        *[places if k == number else _plain(each) for k, each in enumerate(step.args)], **step.kwargs
    )

    def pull(u: torch.Tensor) -> torch.Tensor:
        last = torch.zeros_like(x).reshape(-1)
        last[chosen.reshape(-1)] = u.reshape(-1)
        return last.reshape(x.shape)

    return _pulled(step.result.detach(), x, pull)


def along_another_dimension(step: Step, number: int) -> torch.Tensor | None:
    """A reduction whose gradient is spread along another dimension of the same size, or with keepdim on another."""
    x = step.operand(0)
    if number or x is None or x.dim() != 2 or step.name not in ("sum", "mean", "amax", "amin", "norm", "logsumexp"):
        return None
    y = step.result
    if y.numel() != x.shape[0] or x.shape[0] != x.shape[1]:
        return None
    pull: Any = torch.func.vjp(lambda t: step.with_operand(0, t), x.detach())[1]
    return _pulled(y.detach(), x, lambda u: pull(u)[0].mT)


def exchanged(step: Step, number: int) -> torch.Tensor | None:
    """The derivatives of two operands exchanged."""
    first = 1 if step.name == "where" else 0
    a, b = step.operand(first), step.operand(first + 1)
    if number or a is None or b is None or a.shape != b.shape:
        return None
    apply: Any = _Exchanged.apply
    made: torch.Tensor = step.function(*step.args[:first], *apply(a, b), *step.args[first + 2 :], **step.kwargs)
    return made


class _Exchanged(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> Any:
        return a.clone(), b.clone()

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        return grads[1], grads[0]


class _Pulled(torch.autograd.Function):
    """Values whose gradient is computed by a function of ours."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, x: torch.Tensor, pull: Callable[[torch.Tensor], torch.Tensor]) -> Any:
        ctx.pull = pull
        return values.clone()

    @staticmethod
    def backward(ctx: Any, u: torch.Tensor) -> Any:
        return u, ctx.pull(u), None


def _pulled(values: torch.Tensor, x: torch.Tensor, pull: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """Return these values, with a gradient of x that `pull` makes of grad_output, beside the one that they carry."""
    apply: Any = _Pulled.apply
    made: torch.Tensor = apply(values, x, pull)
    return made


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


def _exponent(step: Step) -> float | None:
    if step.name == "square":
        return 2
    powers = step.name in ("pow", "rpow") and len(step.args) > 1
    return step.args[1] if powers and isinstance(step.args[1], int | float) else None


# fmt: off
_ELEMENTWISE = frozenset({
    "tanh", "sigmoid", "exp", "sqrt", "rsqrt", "reciprocal", "expm1", "softplus", "tan", "sin", "cos", "log",
    "log1p", "log2", "square", "pow", "abs", "relu", "leaky_relu", "elu", "selu", "silu", "gelu", "mish",
    "hardtanh", "hardswish", "softsign", "atan", "asin", "acos", "sinh", "cosh", "asinh", "atanh", "erf",
    "erfc", "erfinv", "sinc", "logit", "mul", "add", "sub", "div", "truediv", "rsub", "neg", "rtruediv", "rpow",
    "true_divide", "xlogy", "atan2", "clamp", "clamp_min", "clamp_max", "lgamma",
})
_INDEXING = frozenset({
    "getitem", "index_select", "gather", "embedding", "take", "take_along_dim", "unfold", "expand", "expand_as",
    "broadcast_to", "repeat", "tile", "repeat_interleave",
})
_ARRANGING = frozenset({
    "transpose", "permute", "movedim", "swapaxes", "t", "flip", "roll", "pixel_shuffle", "rot90", "T", "mT",
})
# fmt: on

_OF_OUTPUT: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
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


ALTERATIONS: tuple[Alteration, ...] = (
    Alteration(
        "BS415",
        constant,
        "takes {step} for {constant}",
        "It is right if {step} did not change with `{argument}`; but it does, and the output with it.",
        "Add the gradient that comes through {step}.",
    ),
    Alteration(
        "BS415",
        left_out,
        "leaves out the path through {operand} of {step}",
        "It is right if {operand} of {step} did not change with `{argument}`. The gradient is the sum over all paths.",
        "Add the gradient that comes through {operand}: the product rule.",
    ),
    Alteration(
        "BS416",
        passed_on,
        "leaves out the derivative of {step}",
        "It is right if the derivative of {step} with respect to {operand} were 1.",
        "Multiply by that derivative: the chain rule.",
    ),
    Alteration(
        "BS416",
        input_for_output,
        "takes the input of {step} where its output belongs",
        "The derivative is written in terms of the output of {step}, and computed with its input.",
        "Save the output of {step} in forward, and use it in backward.",
    ),
    Alteration(
        "BS416",
        output_for_input,
        "takes the output of {step} where its input belongs",
        "It is right for the derivative of {step} at its output; it must be taken at its input.",
        "Save the input of {step} in forward, and use it in backward.",
    ),
    Alteration(
        "BS403",
        negated,
        "has the wrong sign in the part through {step}",
        "It is right if the derivative of {step} with respect to {operand} had the other sign.",
        "Negate that part.",
    ),
    Alteration(
        "BS404",
        summed,
        "differentiates {step} as if it were a sum",
        "It is right without the division in {step}.",
        "Divide by the number of entries that {step} averages.",
    ),
    Alteration(
        "BS404",
        averaged,
        "differentiates {step} as if it were a mean",
        "It is right with a division by the number of entries in {step}.",
        "Do not divide: each entry of a sum has the derivative 1.",
    ),
    Alteration(
        "BS416",
        exponent_left_out,
        "leaves out the exponent in the derivative of {step}",
        "The derivative of xⁿ is n xⁿ⁻¹; the factor n is missing.",
        "Multiply that part by n.",
    ),
    Alteration(
        "BS416",
        exponent_kept,
        "does not lower the exponent in the derivative of {step}",
        "The derivative of xⁿ is n xⁿ⁻¹, and n xⁿ is computed.",
        "Lower the exponent by one.",
    ),
    Alteration(
        "BS416",
        on_the_other_side,
        "exchanges the sides of {step}",
        "It is right for the derivative of {step} at minus its input.",
        "Turn the comparison round.",
    ),
    Alteration(
        "BS416",
        squared,
        "squares the derivative of {step}",
        "It is right with the square of the derivative of {step}.",
        "Derive {step} anew: a power is one too high.",
    ),
    Alteration(
        "BS416",
        inverted,
        "divides by the derivative of {step}",
        "It is right with one over the derivative of {step}.",
        "Multiply by the derivative.",
    ),
    Alteration(
        "BS416",
        skipped,
        "computes with the values before {step}",
        "It is the gradient of a forward without {step}.",
        "Save what {step} returned, and go through it in backward.",
    ),
    Alteration(
        "BS416",
        value_skipped,
        "takes derivatives at the values before {step}",
        "What comes after {step} is differentiated at the values before it; the derivative of {step} itself is right.",
        "Use what {step} returned.",
    ),
    Alteration(
        "BS405",
        of_transposed,
        "lacks a transpose of the gradient that arrives at {step}",
        "It is right with that gradient transposed; the sizes are equal, so nothing complains.",
        "Transpose it: for c = a @ b the gradients are dc @ b.T and a.T @ dc.",
    ),
    Alteration(
        "BS405",
        not_arranged,
        "leaves out {step}",
        "It is the gradient of a forward without {step}; the sizes are equal, so nothing complains.",
        "Put it in: forward used the tensor turned.",
    ),
    Alteration(
        "BS416",
        divisor_not_squared,
        "does not square the divisor in the derivative of {step}",
        "The derivative of a / b with respect to b is -a / b², and -a / b is computed.",
        "Divide by b once more.",
    ),
    Alteration(
        "BS405",
        reshaped,
        "reshapes where it must undo {step}",
        "It is grad_output in the shape of the input of {step}, its entries in another order.",
        "Exchange the dimensions back, and do not reshape.",
    ),
    Alteration(
        "BS406",
        softmax_along_another_dimension,
        "sums over the wrong dimension in the derivative of {step}",
        "The sum in y * (grad_output - (grad_output * y).sum(dim)) must run over the dimension of {step}.",
        "Use the same dim in backward as in forward.",
    ),
    Alteration(
        "BS405",
        flipped,
        "has the kernel of {step} the wrong way round",
        "It is right with the kernel flipped in its spatial dimensions.",
        "The input's gradient is a convolution with the flipped kernel: use conv_transpose, or torch.nn.grad. "
        "The weight's is not flipped.",
    ),
    *(
        Alteration(
            "BS405",
            alter,
            "turns the kernel of {step} in some of its dimensions only",
            f"It is right with the kernel flipped in the {which} spatial dimension alone; all or none are flipped.",
            "Flip all spatial dimensions, or use conv_transpose or torch.nn.grad.",
        )
        for alter, which in ((flipped_in_the_last_dimension, "last"), (flipped_in_the_first_dimension, "first"))
    ),
    Alteration(
        "BS405",
        unconjugated,
        "lacks a conjugate in the derivative of {step}",
        "It is right for a real {operand}; for complex numbers the derivative must be conjugated.",
        "Multiply by the conjugate, as in other.conj().",
    ),
    Alteration(
        "BS405",
        not_transposed,
        "applies {step} again, and not its transpose",
        "What it computes is the derivative of {step} times grad_output; right is the transpose of that derivative: a "
        "shift back, a sum from the other end, a flipped kernel, a transposed matrix, a conjugate.",
        "Apply the transpose: what sends each output entry back to the inputs it came from.",
    ),
    Alteration(
        "BS406",
        overwritten,
        "lacks a sum over repeated indices of {step}",
        "Where an index occurs more than once, only the last gradient is kept.",
        "grad[index] = grad_output overwrites; grad.index_add_(0, index, grad_output), or scatter_add_, adds.",
    ),
    Alteration(
        "BS406",
        along_another_dimension,
        "spreads the gradient of {step} along the wrong dimension",
        "It is right transposed: the dimensions have one size, so nothing complains.",
        "Unsqueeze grad_output in the dimension that {step} reduced.",
    ),
    Alteration(
        "BS407",
        exchanged,
        "exchanges the derivatives of the two operands of {step}",
        "It is right with the derivative of the first operand for the second, and the other way round.",
        "Exchange them.",
    ),
)


SCALED = Alteration(
    "BS404",
    left_out,
    "has {factor} the derivative of {step}",
    "It is right if the derivative of {step} with respect to {operand} were {factor} what it is.",
    "Multiply that part by {inverse}.",
)
"""A derivative that is off by a factor: the factor follows from the gradients with that derivative and without it."""

PASSED_SCALED = Alteration(
    "BS416",
    passed_on,
    "has a number in the place of the derivative of {step}",
    "It is right if the derivative of {step} with respect to {operand} were {factor} 1 everywhere.",
    "Multiply by that derivative: the chain rule.",
)

FACTOR = Alteration(
    "BS416",
    passed_on,
    "{has} the factor {step}",
    "Every entry would be right if it were {changed} by {step}.",
    "Multiply the derivatives of all steps of forward, from its output back to this input.",
)

WHOLE = Alteration(
    "BS405",
    not_transposed,
    "applies the derivative of forward, and not its transpose",
    "What it returns is J @ grad_output, and must be Jᵀ @ grad_output: what forward rotates, shifts or sums one way "
    "goes back the other way.",
    "Apply the transpose: what sends each output entry back to the inputs it came from.",
)

UP_TO = Alteration(
    "BS416",
    passed_on,
    "leaves out the derivative of everything up to {step}",
    "It is right if {step} had the derivative 1 with respect to `{argument}`.",
    "Multiply by the derivative of what stands inside: the chain rule.",
)

STAND_IN = Alteration(
    "BS416",
    skipped,
    "computes the derivative of {step} with another tensor",
    "It is right with {stand_in} in the place of {operand} of {step}.",
    "Save the tensor that {step} got.",
)
"""A derivative computed from the wrong saved tensor."""


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
    return step.result.detach() + (made - made.detach())
