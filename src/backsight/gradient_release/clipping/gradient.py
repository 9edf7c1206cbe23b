"""A gradient that is kept as factors, and looks like any other in `parameter.grad`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_map

from backsight.gradient_release._amp import CHECK_AND_UNSCALE, check_and_unscale
from backsight.gradient_release._torch import PAST_TORCH_FUNCTION, make_wrapper
from backsight.gradient_release.clipping.factor import Factor, dense_sum
from backsight.gradient_release.clipping.gram import is_exact, norm

aten = torch.ops.aten


class FactoredGradient(torch.Tensor):
    """A weight's gradient as factors: its norm, a multiplication and GradScaler's check leave it so.

    Whatever else reads it gets the numbers of the dense gradient, which is made for that moment; whatever writes to it,
    or takes a view, makes it dense for good. `zero_grad` drops it like any gradient, and its factors too.
    """

    __torch_function__ = PAST_TORCH_FUNCTION  # all is in __torch_dispatch__

    _weight: torch.Tensor
    _factors: list[Factor]
    _multipliers: list[Any]
    _whole: torch.Tensor | None

    @staticmethod
    def __new__(cls, weight: torch.Tensor, factors: Sequence[Factor]) -> FactoredGradient:
        made: FactoredGradient = make_wrapper(
            cls, weight.shape, strides=weight.stride(), dtype=weight.dtype, device=weight.device, requires_grad=False
        )
        # Not the parameter: it holds this gradient, and the two would keep each other alive until the next collection.
        made._weight = weight.detach()
        made._factors, made._multipliers, made._whole = list(factors), [], None
        return made

    @property
    def factors(self) -> Sequence[Factor]:
        """The parts of the gradient; none once it is dense."""
        return tuple(self._factors)

    def append(self, factor: Factor) -> None:
        """Add to the gradient: another call of the layer, or another micro-batch."""
        kept = sum(each.nbytes for each in self._factors) + factor.nbytes
        if self._whole is None and not self._multipliers and kept < self._weight.nbytes:
            self._factors.append(factor)
        else:
            factor.add_to(self.densify())

    def norm_of(self, order: float) -> torch.Tensor:
        """Return the `order`-norm, a tensor without a dimension."""
        found = norm(self._factors) if order == 2 and self._factors else None
        if found is None:
            whole: torch.Tensor = torch.linalg.vector_norm(self.dense(), order)
            return whole
        for multiplier in self._multipliers:
            found = found * abs(multiplier)
        return found.to(self._weight.dtype)

    def dense(self) -> torch.Tensor:
        """Return the gradient as a new tensor, and stay as it is; the one that there is, if it is dense already."""
        if self._whole is not None:
            return self._whole
        made = dense_sum(self._factors, self._weight)
        for multiplier in self._multipliers:
            made.mul_(multiplier)
        return made

    def dense_times(self, numbers: Sequence[torch.Tensor]) -> torch.Tensor | None:
        """Return the gradient times all of `numbers`, without a pass over it; None if that would round too coarsely."""
        if not self._factors or not is_exact(self._factors):
            return None
        factors = self._factors
        for number in numbers:
            factors = [factor.times(number) for factor in factors]
        made = dense_sum(factors, self._weight)
        for multiplier in self._multipliers:
            made.mul_(multiplier)
        return made

    def densify(self) -> torch.Tensor:
        """Become dense for good, and return the gradient."""
        self._whole = self.dense()
        self._factors, self._multipliers = [], []
        return self._whole

    def scale_by(self, multiplier: torch.Tensor | float) -> None:
        """Multiply by a number, now or when the gradient is made."""
        if self._whole is not None:
            self._whole.mul_(multiplier)
        else:
            self._multipliers.append(multiplier.clone() if isinstance(multiplier, torch.Tensor) else multiplier)

    def clear(self) -> None:
        """Become zero, as `zero_grad(set_to_none=False)` wants it, and keep no memory for it."""
        self._factors, self._multipliers, self._whole = [], [], None

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # called on the class, with these
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        lazily = LAZILY.get(func)
        if lazily is not None:
            answer = lazily(*args, **kwargs)
            if answer is not NotImplemented:
                return answer
        if func._schema.is_mutable or any(each.alias_info is not None for each in func._schema.returns):
            answer = func(*tree_map(_densified, args), **tree_map(_densified, kwargs))
            return args[0] if func._schema.is_mutable and args and isinstance(args[0], FactoredGradient) else answer
        return func(*tree_map(_dense, args), **tree_map(_dense, kwargs))

    def __deepcopy__(self, memo: dict[int, Any]) -> torch.Tensor:
        return self.densify().clone()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.densify().__reduce_ex__(protocol)  # type: ignore[no-untyped-call]  # as above

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]  # which has no types
        parts = "dense" if self._whole is not None else f"{len(self._factors)} factors"
        return f"FactoredGradient(shape={tuple(self.shape)}, {parts})"

    def data_ptr(self) -> int:
        """Return where the dense gradient is, for those that read memory themselves."""
        return self.densify().data_ptr()

    def numpy(self, *, force: bool = False) -> Any:
        """Return the dense gradient as an array, of which subclasses of Tensor are otherwise refused."""
        return self.densify().numpy(force=force)

    def tolist(self) -> Any:
        """Return the dense gradient as nested lists."""
        return self.densify().tolist()


def keep(weight: torch.Tensor, factor: Factor) -> bool:
    """Add `factor` to the gradient of `weight`, unless that is dense already, or has been used for a step."""
    held = weight.grad
    if held is None:
        weight.grad = FactoredGradient(weight, [factor])
    elif type(held) is FactoredGradient:
        held.append(factor)
    else:
        return False
    return True


def _dense(value: Any) -> Any:
    return value.dense() if isinstance(value, FactoredGradient) else value


def _densified(value: Any) -> Any:
    return value.densify() if isinstance(value, FactoredGradient) else value


def _vector_norm(gradient: Any, order: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    if dim is not None or keepdim or dtype is not None:
        return NotImplemented
    return gradient.norm_of(float(order))


def _zero(gradient: Any) -> Any:
    gradient.clear()
    return gradient


def _foreach_norm(gradients: list[Any], order: float = 2, dtype: Any = None) -> Any:
    if dtype is not None:
        return NotImplemented
    return [torch.linalg.vector_norm(gradient, order) for gradient in gradients]


def _multiply(gradient: Any, multiplier: Any) -> Any:
    if not isinstance(gradient, FactoredGradient) or not _is_number(multiplier):
        return NotImplemented
    gradient.scale_by(multiplier)
    return gradient


def _foreach_multiply(gradients: list[torch.Tensor], multiplier: Any) -> Any:
    if not _is_number(multiplier):
        return NotImplemented
    for gradient in gradients:
        gradient.mul_(multiplier)
    return None


def _check_and_unscale(gradients: list[Any], found_inf: torch.Tensor, inverse_scale: torch.Tensor) -> None:
    """Look at the numbers themselves: factors may be finite where their product is not."""
    for gradient in gradients:
        if isinstance(gradient, FactoredGradient) and gradient.factors:
            check_and_unscale([gradient.dense()], found_inf, inverse_scale)
            gradient.scale_by(inverse_scale)
        else:
            check_and_unscale([_densified(gradient)], found_inf, inverse_scale)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) or (type(value) is torch.Tensor and value.dim() == 0)


LAZILY: dict[Any, Callable[..., Any]] = {
    aten.linalg_vector_norm.default: _vector_norm,
    aten.zero_.default: _zero,
    aten._foreach_norm.Scalar: _foreach_norm,
    aten.mul_.Tensor: _multiply,
    aten.mul_.Scalar: _multiply,
    aten._foreach_mul_.Tensor: _foreach_multiply,
    aten._foreach_mul_.Scalar: _foreach_multiply,
    CHECK_AND_UNSCALE: _check_and_unscale,
}
"""What leaves a gradient in factors, by the operator that is called."""
