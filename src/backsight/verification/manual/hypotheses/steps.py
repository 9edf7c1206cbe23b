"""Hypotheses about a step of the chain rule that is missing: the gradient is right for another layer."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from backsight.verification.manual.hypotheses.registry import hypothesis
from backsight.verification.manual.mistake import Mistake, Told

ACTIVATIONS = (
    nn.ReLU,
    nn.LeakyReLU,
    nn.Sigmoid,
    nn.Tanh,
    nn.GELU,
    nn.SiLU,
    nn.ELU,
    nn.Softplus,
    nn.Hardtanh,
    nn.Mish,
    nn.SELU,
)


NORMALISATIONS = (nn.LayerNorm, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)

Slope = Callable[[nn.Module, torch.Tensor, torch.Tensor], torch.Tensor]
"""A derivative that somebody may have taken for that of a module, of its input and output."""


@hypothesis("BS416", 4)
def activation_left_out(mistake: Mistake) -> Told | None:
    """Right if the derivative of an activation were 1."""
    found = _right_with(mistake, ACTIVATIONS, lambda module, x, y: torch.ones_like(x))
    if found is None:
        return None
    kind, name, module = found
    return Told(
        f"lacks the derivative of {kind}",
        f"It is right for a layer whose {kind}{name} has the derivative 1: the error signal went through without being "
        "multiplied by it.",
        f"Multiply grad_out by the derivative of {kind} before it goes on: {_derivative(module)}.",
    )


@hypothesis("BS400", 4)
def derivative_of_the_output(mistake: Mistake) -> Told | None:
    """Right if the derivative of an activation were taken at its output."""
    found = _right_with(mistake, ACTIVATIONS, lambda module, x, y: _slope(module, y))
    if found is None:
        return None
    kind, name, module = found
    return Told(
        f"takes the derivative of {kind} in the wrong place",
        f"It is right for the derivative of {kind}{name} at the output of {kind}; it has to be taken at its input.",
        f"Keep the input of {kind} in forward: {_derivative(module)}.",
    )


@hypothesis("BS415", 4)
def statistics_left_out(mistake: Mistake) -> Told | None:
    """Right if mean and variance of a normalisation did not depend on its input."""
    found = _right_with(mistake, NORMALISATIONS, lambda module, x, y: _scale(module, x))
    if found is None:
        return None
    kind, name, _ = found
    return Told(
        f"takes the mean and the variance of {kind} for constants",
        f"It is grad_out * weight / std: right if {kind}{name} divided by numbers. But each input changes the mean and "
        "the variance, and by them every output.",
        "Subtract what comes through mean and variance.",
    )


@hypothesis("BS415", 4)
def cross_terms_left_out(mistake: Mistake) -> Told | None:
    """Right if each output of a softmax depended on its own input alone."""
    found = _right_with(mistake, (nn.Softmax,), lambda module, x, y: y * (1 - y))
    if found is None:
        return None
    kind, name, _ = found
    return Told(
        f"lacks the cross terms of {kind}",
        f"It is grad_out * y * (1 - y), the diagonal of the Jacobian of {kind}{name}. Every output depends on every "
        "input, since they sum to one: dy[i]/dx[j] = -y[i] y[j].",
        "Multiply by the whole Jacobian: y * (grad_out - (grad_out * y).sum(dim, keepdim=True)).",
    )


@hypothesis("BS406", 4)
def repeated_indices(mistake: Mistake) -> Told | None:
    """Right if every row of an embedding were used once: the last use overwrote the others."""
    layer, (x, *_) = mistake.layer, mistake.reference.inputs
    if not isinstance(layer, nn.Embedding):
        return None
    last = torch.zeros_like(mistake.right)
    for index, row in zip(x.flatten().tolist(), mistake.reference.grad_out.flatten(0, -2), strict=True):
        last[index] = row
    if not mistake.is_given(last):
        return None
    repeated = int((x.flatten().bincount() > 1).sum())
    return Told(
        "lacks a sum over repeated indices",
        f"{repeated} of the rows are looked up more than once, and each holds the gradient of one use alone.",
        "grad[x] = grad_out overwrites; grad.index_add_(0, x, grad_out) adds.",
    )


@hypothesis("BS400", 4)
def flipped(mistake: Mistake) -> Told | None:
    """A convolution where a correlation is right: the kernel turned round."""
    dims = tuple(range(2, mistake.right.dim()))
    if not dims or not mistake.becomes_right(lambda g: g.flip(dims)):
        return None
    return Told(
        "is turned round",
        "Flipped in its spatial dimensions it is right: PyTorch's convolution is a correlation, which does not turn "
        "the kernel.",
        "Leave out one flip, or put one in.",
    )


def _right_with(
    mistake: Mistake, kinds: tuple[type[nn.Module], ...], slope: Slope
) -> tuple[str, str, nn.Module] | None:
    """Return the first module in the layer whose derivative was taken for `slope`: its class, name and itself.

    The name is ` "1"`, and empty for the layer itself.
    """
    for name, module in mistake.layer.named_modules():
        if isinstance(module, kinds):

            def other(each: nn.Module, x: torch.Tensor, y: torch.Tensor, module: nn.Module = module) -> torch.Tensor:
                return _with_slope(x, y, slope(module, x, y)) if each is module else y

            if mistake.is_given(mistake.would_be(replace=other)):
                return type(module).__name__, f' "{name}"' if name else "", module
    return None


def _with_slope(x: torch.Tensor, y: torch.Tensor, slope: torch.Tensor) -> torch.Tensor:
    """Return the values of y as a function of x with the derivative `slope`, entry by entry."""
    line = slope.detach() * x
    return line + (y - line).detach()


def _slope(module: nn.Module, at: torch.Tensor) -> torch.Tensor:
    """Return the derivative of an activation at `at`."""
    x = at.detach().requires_grad_()
    return torch.autograd.grad(type(module).forward(module, x).sum(), x)[0]


def _scale(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """Return weight / std of a normalisation, for each entry of its input."""
    x = x.detach()
    if isinstance(module, nn.LayerNorm):
        dims = tuple(range(x.dim() - len(module.normalized_shape), x.dim()))
        scale = torch.rsqrt(x.var(dims, keepdim=True, correction=0) + module.eps).expand_as(x)
        return scale if module.weight is None else scale * module.weight.detach().to(x.dtype)
    dims = (0, *range(2, x.dim()))
    shape = (1, -1, *(1,) * (x.dim() - 2))
    scale = torch.rsqrt(x.var(dims, keepdim=True, correction=0) + module.eps).expand_as(x)  # type: ignore[operator]
    return scale if module.weight is None else scale * module.weight.detach().to(x.dtype).view(shape)  # type: ignore[operator]


def _derivative(module: nn.Module) -> str:
    kinds = {
        nn.ReLU: "grad_out * (x > 0)",
        nn.Sigmoid: "grad_out * y * (1 - y), y = sigmoid(x)",
        nn.Tanh: "grad_out * (1 - y**2), y = tanh(x)",
    }
    return kinds.get(type(module), f"grad_out * d{type(module).__name__}(x)/dx")
