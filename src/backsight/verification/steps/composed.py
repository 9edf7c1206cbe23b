"""What common operations are composed of: a backward is derived through these steps, and one of them is forgotten."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

COMPOSED: dict[str, Callable[..., Any]] = {}
"""By name of the operation. A TypeError says that a composition does not take the arguments."""


def composed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Enter a composition under its name."""
    COMPOSED[function.__name__] = function
    return function


@composed
def softmax(input: torch.Tensor, dim: int) -> Any:
    powers = (input - input.detach().amax(dim, keepdim=True)).exp()
    return powers / powers.sum(dim, keepdim=True)


@composed
def log_softmax(input: torch.Tensor, dim: int) -> Any:
    return input - input.logsumexp(dim, keepdim=True)


@composed
def layer_norm(
    input: torch.Tensor, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5
) -> Any:
    dims = tuple(range(input.dim() - len(normalized_shape), input.dim()))
    normal = _normal(input, dims, eps)
    normal = normal if weight is None else normal * weight
    return normal if bias is None else normal + bias


@composed
def var(input: torch.Tensor, dim: Any = None, unbiased: bool = True, keepdim: bool = False, **given: Any) -> Any:
    correction = given.pop("correction", int(unbiased))
    if given or dim is None or isinstance(dim, bool):
        raise TypeError
    dims = [dim] if isinstance(dim, int) else list(dim)
    count = 1
    for each in dims:
        count *= input.shape[each]
    centered = input - input.mean(dims, keepdim=True)
    return centered.square().sum(dims, keepdim=keepdim) / (count - correction)


@composed
def std(input: torch.Tensor, dim: Any = None, unbiased: bool = True, keepdim: bool = False, **given: Any) -> Any:
    return var(input, dim, unbiased, keepdim, **given).sqrt()


@composed
def normalize(input: torch.Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Any:
    return input / input.norm(p, dim, keepdim=True).clamp_min(eps)


@composed
def rms_norm(input: torch.Tensor, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    dims = tuple(range(input.dim() - len(normalized_shape), input.dim()))
    eps = torch.finfo(input.dtype).eps if eps is None else eps
    normal = input * (input.square().mean(dims, keepdim=True) + eps).rsqrt()
    return normal if weight is None else normal * weight


@composed
def silu(input: torch.Tensor) -> Any:
    return input * input.sigmoid()


@composed
def gelu(input: torch.Tensor, *, approximate: str = "none") -> Any:
    if approximate == "tanh":
        return 0.5 * input * (1 + torch.tanh((2 / math.pi) ** 0.5 * (input + 0.044715 * input**3)))
    return input * (0.5 * (1 + torch.erf(input / 2**0.5)))


@composed
def mish(input: torch.Tensor) -> Any:
    return input * torch.nn.functional.softplus(input).tanh()


@composed
def relu6(input: torch.Tensor, inplace: bool = False) -> Any:
    return _bounded(input, 0.0, 6.0, inplace)


@composed
def hardtanh(input: torch.Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Any:
    return _bounded(input, min_val, max_val, inplace)


@composed
def hardsigmoid(input: torch.Tensor, inplace: bool = False) -> Any:
    return _bounded(input + 3, 0.0, 6.0, inplace) / 6


@composed
def hardswish(input: torch.Tensor, inplace: bool = False) -> Any:
    return input * (_bounded(input + 3, 0.0, 6.0, inplace) / 6)


@composed
def huber_loss(input: torch.Tensor, target: torch.Tensor, *, reduction: str = "mean", delta: float = 1.0) -> Any:
    gap = input - target
    size = gap.abs()
    return _reduced(torch.where(size <= delta, 0.5 * gap.square(), delta * (size - 0.5 * delta)), reduction)


@composed
def smooth_l1_loss(input: torch.Tensor, target: torch.Tensor, *, reduction: str = "mean", beta: float = 1.0) -> Any:
    gap = input - target
    size = gap.abs()
    return _reduced(torch.where(size < beta, gap.square() / (2 * beta), size - 0.5 * beta), reduction)


@composed
def logsumexp(input: torch.Tensor, dim: Any, keepdim: bool = False) -> Any:
    return input.exp().sum(dim, keepdim=keepdim).log()


@composed
def cumprod(input: torch.Tensor, dim: int) -> Any:
    if input.is_complex() or not bool((input > 0).all()):
        raise TypeError
    return input.log().cumsum(dim).exp()


@composed
def logcumsumexp(input: torch.Tensor, dim: int) -> Any:
    return input.exp().cumsum(dim).log()


@composed
def norm(input: torch.Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False) -> Any:
    if p not in ("fro", 2) or input.is_complex():
        raise TypeError
    squares = input.square()
    return (squares.sum() if dim is None else squares.sum(dim, keepdim=keepdim)).sqrt()


@composed
def linalg_vector_norm(input: torch.Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False) -> Any:
    return norm(input, ord, dim, keepdim)


@composed
def linear(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Any:
    product = input @ weight.mT
    return product if bias is None else product + bias


@composed
def unfold(input: torch.Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    (height, width), (down, across) = _pair(kernel_size), _pair(stride)
    if _pair(dilation) != (1, 1) or _pair(padding) != (0, 0) or input.dim() != 4:
        raise TypeError
    windows = input.unfold(2, height, down).unfold(3, width, across)
    columns = windows.permute(0, 1, 4, 5, 2, 3)
    return columns.reshape(input.shape[0], input.shape[1] * height * width, -1)


@composed
def mse_loss(input: torch.Tensor, target: torch.Tensor, *, reduction: str = "mean") -> Any:
    return _reduced((input - target).square(), reduction)


@composed
def cross_entropy(input: torch.Tensor, target: torch.Tensor, *, reduction: str = "mean") -> Any:
    if target.is_floating_point() or input.dim() != 2:
        raise TypeError
    chosen = input.gather(1, target[:, None])[:, 0]
    return _reduced(input.logsumexp(1) - chosen, reduction)


@composed
def binary_cross_entropy_with_logits(input: torch.Tensor, target: torch.Tensor, *, reduction: str = "mean") -> Any:
    return _reduced(torch.nn.functional.softplus(input) - input * target, reduction)


@composed
def kl_div(input: torch.Tensor, target: torch.Tensor, *, reduction: str = "mean") -> Any:
    if reduction == "batchmean":
        return (target * (target.log() - input)).sum() / input.shape[0]
    return _reduced(target * (target.log() - input), reduction)


@composed
def cosine_similarity(x1: torch.Tensor, x2: torch.Tensor, dim: int = 1) -> Any:
    return (x1 * x2).sum(dim) / (x1.norm(2, dim) * x2.norm(2, dim))


@composed
def scaled_dot_product_attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> Any:
    scores = query @ key.mT
    return (scores / query.shape[-1] ** 0.5).softmax(-1) @ value


@composed
def group_norm(input: torch.Tensor, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    groups = input.reshape(input.shape[0], num_groups, -1)
    normal = _normal(groups, (2,), eps).reshape(input.shape)
    shape = (1, -1, *(1,) * (input.dim() - 2))
    normal = normal if weight is None else normal * weight.reshape(shape)
    return normal if bias is None else normal + bias.reshape(shape)


@composed
def batch_norm(
    input: torch.Tensor,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Any:
    if not training:
        raise TypeError
    normal = _normal(input, (0, *range(2, input.dim())), eps)
    shape = (1, -1, *(1,) * (input.dim() - 2))
    normal = normal if weight is None else normal * weight.reshape(shape)
    return normal if bias is None else normal + bias.reshape(shape)


def _bounded(input: torch.Tensor, low: float, high: float, inplace: bool) -> Any:
    if inplace:
        raise TypeError
    return input.clamp(low, high)


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else tuple(value)


def _reduced(each: torch.Tensor, reduction: str) -> Any:
    if reduction == "none":
        return each
    return each.mean() if reduction == "mean" else each.sum()


def _normal(input: torch.Tensor, dims: tuple[int, ...], eps: float) -> Any:
    centered = input - input.mean(dims, keepdim=True)
    deviation = (centered.square().mean(dims, keepdim=True) + eps).sqrt()
    return centered / deviation
