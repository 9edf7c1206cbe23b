"""What stands in `parameter.grad` for a gradient that was used for a step and freed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import torch

from backsight.gradient_release._torch import PAST_TORCH_FUNCTION, wrapper
from backsight.gradient_release.errors import AlreadyStepped, GradientGone
from backsight.tape import in_backward

if TYPE_CHECKING:
    from backsight.gradient_release.arrival import Slot

aten = torch.ops.aten


class Owner(Protocol):
    """What a placeholder knows of its parameter, which it must not hold."""

    def name(self) -> str:
        """Return what the program calls the parameter."""

    def second_gradient(self) -> str:
        """Say that the parameter gets a second gradient after it was stepped with the first."""

    def zero(self) -> None:
        """Have the gradient be zero: there is none, and the next one is the first."""

    def left_alone(self) -> None:
        """Take note that the gradient was multiplied by a tensor of 1, as by a clipping that had nothing to do."""


class Placeholder(torch.Tensor):
    """A gradient that is gone: it has a shape, a type, a device and its norm, but no memory.

    - Its 2-norm is the true one, so that `clip_grad_norm_` returns the right total; a factor of exactly 1 is honoured.
    - Zeroing it takes it away: `zero_grad(set_to_none=False)`.
    - A second gradient raises AlreadyStepped, and everything else raises GradientGone: nothing is silently wrong.
    - A deep copy of it is None, so that copies of the parameter have no gradient.
    """

    norm_taken: torch.Tensor | None
    owner: Owner
    overwritable: bool
    """Whether DistributedDataParallel is about to copy the averaged gradient here, of which there is no need."""

    @staticmethod
    def __new__(cls, like: torch.Tensor, owner: Owner, dtype: Any = None, device: Any = None) -> Placeholder:
        made: Placeholder = wrapper(cls, like, dtype, device)
        made.norm_taken = None
        made.owner = owner
        made.overwritable = False
        return made

    __torch_function__ = PAST_TORCH_FUNCTION  # as torch writes it

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # torch's own has no self that mypy knows of
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        answer = _ANSWERS.get(func.overloadpacket)
        if answer is None:
            raise _gone(func, args)
        return answer(func, args, kwargs or {})

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]  # torch's has no types
        return f"<the gradient of {_name(self)}, used for a step and freed; norm_taken={_value(self)}>"

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        return None

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise GradientGone(f"{_told(self)} It cannot be pickled.")

    def _no_values(self, *args: Any, **kwargs: Any) -> Any:
        raise GradientGone(f"{_told(self)} It has no values. Release keeps norms: release.grad_norms().")

    # What does not go through __torch_dispatch__; the last two are what the gradient of a sharded parameter has.
    tolist = numpy = __array__ = __dlpack__ = data_ptr = full_tensor = to_local = _no_values

    def share_memory_(self) -> Placeholder:
        """Do nothing: there is no memory. `model.share_memory()` comes here."""
        return self

    @property  # type: ignore[override]  # where torch has an attribute in C
    def data(self) -> Placeholder:
        """Itself."""
        return self

    @data.setter
    def data(self, value: Any) -> None:
        if not _is_gone(value):
            raise GradientGone(f"{_told(self)} It is too late to set its values.")
        torch.Tensor.data.__set__(self, value)  # type: ignore[attr-defined]  # where `model.to()` puts what it has moved


def _gone(func: Any, args: Any) -> GradientGone:
    operation = func.overloadpacket.__name__.removeprefix("_foreach_")
    return GradientGone(
        f"{_told(_first(args))} `{operation}` needs its values. Release keeps norms: release.grad_norms(). To keep "
        "gradients for this step, run its backward within `with release.accumulate():`."
    )


def _norm(func: Any, args: Any, kwargs: Any) -> torch.Tensor:
    """Answer `linalg.vector_norm(grad)`."""
    order = args[1] if len(args) > 1 else kwargs.get("ord", 2)
    return _norm_of(args[0], order, whole=len(args) < 3 and not kwargs.keys() - {"ord"})


def _norms(func: Any, args: Any, kwargs: Any) -> list[torch.Tensor]:
    """Answer `torch._foreach_norm(grads)`."""
    order = args[1] if len(args) > 1 else kwargs.get("ord", 2)
    return [_norm_of(each, order) if _is_gone(each) else torch.linalg.vector_norm(each, order) for each in args[0]]


def _norm_of(gone: Placeholder, order: float, whole: bool = True) -> torch.Tensor:
    taken = gone.norm_taken
    if taken is None or order != 2 or not whole:
        raise GradientGone(
            f"{_told(gone)} Only its 2-norm was taken, not a norm of order {order}. To keep gradients for this step, "
            "run its backward within `with release.accumulate():`."
        )
    return taken.clone()


def _scale(func: Any, args: Any, kwargs: Any) -> Any:
    """Answer `grad.mul_(factor)`: a factor of 1 changes nothing."""
    gone, factor = args
    _honour(gone, factor)
    if isinstance(factor, torch.Tensor):
        gone.owner.left_alone()
    return gone


def _scale_each(func: Any, args: Any, kwargs: Any) -> None:
    """Answer `torch._foreach_mul_(grads, factor)`."""
    grads, factors = args
    each = list(factors) if isinstance(factors, (list, tuple)) else [factors] * len(grads)
    for gradient, factor in zip(grads, each, strict=True):
        if _is_gone(gradient):
            _honour(gradient, factor)
    for gradient, factor in zip(grads, each, strict=True):
        if not _is_gone(gradient):
            gradient.mul_(factor)
    if isinstance(factors, torch.Tensor) and (gone := _first(args)) is not None:
        gone.owner.left_alone()


def _honour(gone: Any, factor: Any) -> None:
    if not _is_gone(gone):
        raise GradientGone(f"{_told(factor)} Its values are needed to multiply another tensor by.")
    number = float(factor.full_tensor() if hasattr(factor, "full_tensor") else factor)
    if number != 1.0 and not isinstance(factor, torch.Tensor):
        raise GradientGone(_too_late_for(gone, f"multiply it by {number:.6g}", f"* {number:.6g}"))
    if number != 1.0:
        raise GradientGone(
            f"{_told(gone)} It is too late to scale it by {number:.3g}, as clip_grad_norm_ does after backward. Call "
            "release.clip(max_norm) once before training instead: it clips by the norm of all gradients, which is the "
            "same, up to rounding, if you clip them all. To clip only some, keep the gradients of this step: run its "
            "backward within `with release.accumulate():`."
        )


def _overwrite(func: Any, args: Any, kwargs: Any) -> Any:
    """Answer `grad.copy_(averaged)`, which DDP does with all gradients at the end of backward."""
    if not (_is_gone(args[0]) and args[0].overwritable):
        raise _gone(func, args)
    return args[0]


def _divide(func: Any, args: Any, kwargs: Any) -> Any:
    """Answer `grad.div_(number)`, as when gradients of a single rank or micro-batch are averaged."""
    gone, divisor = args
    if not _is_gone(gone) or float(divisor) != 1.0:
        raise GradientGone(_too_late_for(gone, f"divide it by {float(divisor):.6g}", f"/ {float(divisor):.6g}"))
    return gone


def _too_late_for(gone: Any, what: str, times: str) -> str:
    """Say what to do instead of scaling gradients by a number that is known before: an average, or a loss scale."""
    return (
        f"{_told(gone)} It is too late to {what}. For an average, scale the loss: `(loss {times}).backward()`. To undo "
        "a loss scale, scale each gradient as it comes: `for p in model.parameters(): p.register_hook(lambda gradient: "
        f"gradient {times})`, once, before the training. Or keep the gradients of this step: run its backward within "
        "`with release.accumulate():`."
    )


def _moved(func: Any, args: Any, kwargs: Any) -> Any:
    """Answer `grad.to(...)`, which `model.to(...)` calls for all gradients."""
    gone = args[0]
    moved = Placeholder(gone, gone.owner, kwargs.get("dtype"), kwargs.get("device"))
    moved.norm_taken = gone.norm_taken
    return moved


def _zero(func: Any, args: Any, kwargs: Any) -> Any:
    args[0].owner.zero()
    return args[0]


def _zero_each(func: Any, args: Any, kwargs: Any) -> None:
    for gradient in args[0]:
        if _is_gone(gradient):
            gradient.owner.zero()
        else:
            gradient.zero_()


def _unscale(func: Any, args: Any, kwargs: Any) -> None:
    raise GradientGone(
        f"{_told(_first(args))} GradScaler would divide it by the scale now, but the step already used the scaled "
        "gradient. bfloat16 needs no scaler; for float16, call release.clip(max_norm) before training."
    )


def _itself(func: Any, args: Any, kwargs: Any) -> Any:
    return args[0]


def _add(func: Any, args: Any, kwargs: Any) -> Any:
    """Answer what autograd does with a second gradient, `grad += new`; nothing else may add to it either."""
    if in_backward() and _is_gone(args[0]):
        raise AlreadyStepped(args[0].owner.second_gradient())
    raise _gone(func, args)


_ANSWERS: dict[Any, Callable[[Any, Any, Any], Any]] = {
    aten.linalg_vector_norm: _norm,
    aten._foreach_norm: _norms,
    aten.mul_: _scale,
    aten.copy_: _overwrite,
    aten._foreach_mul_: _scale_each,
    aten.div_: _divide,
    aten._to_copy: _moved,
    aten.zero_: _zero,
    aten._foreach_zero_: _zero_each,
    aten._amp_foreach_non_finite_check_and_unscale_: _unscale,
    aten.detach: _itself,
    aten.detach_: _itself,
    aten.add: _add,
    aten.add_: _add,
}


def _told(gone: Any) -> str:
    return f"The gradient of {_name(gone)} was used for a step inside the backward pass and freed."


def _name(gone: Any) -> str:
    owner: Owner | None = getattr(gone, "owner", None)
    return "a parameter" if owner is None else owner.name()


def _value(gone: Placeholder) -> str:
    return "?" if gone.norm_taken is None else f"{float(gone.norm_taken):.3g}"


def _is_gone(value: Any) -> bool:
    return type(value) is Placeholder


def _first(args: Any) -> Any:
    """Return the first gradient that is gone among the arguments of an operation."""
    for value in args:
        for each in value if isinstance(value, (list, tuple)) else (value,):
            if _is_gone(each):
                return each
    return None


def leave_placeholder(slot: Slot, parameter: torch.Tensor, gradient: torch.Tensor, norm: torch.Tensor | None) -> None:
    """Put the placeholder of a slot into the place of a gradient that was used for a step."""
    placeholder = slot.placeholder
    if placeholder is None or not _alike(placeholder, gradient):
        placeholder = slot.placeholder = Placeholder(gradient, slot)
    placeholder.norm_taken = norm
    parameter.grad = placeholder


def _alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype and one.device == other.device
