"""Parameters that are ahead: stepped inside of the backward pass, while `optimizer.step()` is still to come.

The ordinary loop has them at their old values until then. Whoever reads one finds another value than there, and whoever
changes one changes it after its step instead of before. So each is, for that long, of a class of its own that tells who
uses it. That costs two assignments a step, and waits for no device.

A tensor that shares the memory of a parameter (`detach()`, `.data`, a view, a NumPy array) is not seen by it. So a
parameter that has one alive when its gradient comes is not stepped early at all (`may_be_ahead`); and those that are
handed out later come from here.
"""

from __future__ import annotations

import weakref
from typing import Any, ClassVar

import torch

from backsight.blame import warn
from backsight.gradient_release._torch import make_alike, no_subclass_function, shares_memory
from backsight.gradient_release.arrival import Slot
from backsight.gradient_release.errors import AlreadyStepped, ReleaseWarning
from backsight.gradient_release.ledger import Ledger
from backsight.gradient_release.reads import tensors_in
from backsight.gradient_release.remedy import read_in_backward, read_too_early, thrown_away, used_too_early
from backsight.tape import in_backward

_SEEN_INTO = (torch.Tensor, torch.nn.Parameter)
"""The classes whose instances can be told of; others (DTensor, quantized weights) bring a class of their own."""

_VIEWS = frozenset({"data", "T", "mT", "H", "mH", "real", "imag"})
"""Attributes of a tensor that share its memory; other attributes are no values."""

_VALUES = frozenset(
    {
        *("item", "tolist", "numpy", "equal", "allclose", "is_nonzero"),
        *("__array__", "__bool__", "__float__", "__int__", "__index__", "__complex__"),
        *("__repr__", "__format__", "__contains__", "__dlpack__"),
    }
)
"""Functions that read values and return no tensor."""


def may_be_ahead(parameter: torch.Tensor) -> bool:
    """Whether nobody can reach the values of a parameter but through it; DTensors share their memory with FSDP2."""
    return not _is_seen_into(parameter) or not shares_memory(parameter)


def address(parameter: torch.Tensor) -> int:
    """Return where the values of a parameter are, if they are in one place."""
    return parameter.data_ptr() if _is_seen_into(parameter) else 0


def _is_seen_into(parameter: torch.Tensor) -> bool:
    return type(parameter) in _SEEN_INTO and parameter.layout is torch.strided


class Ahead:
    """Watches over the parameters of a release that are ahead.

    ```python
    ahead.begin(parameter)      # after its partial step
    ahead.changed(parameter)    # whether it was written to through `.data`
    end(parameter)              # before the optimizer's own step
    ```

    Args:
        ledger: of the release, which knows what has happened in the step under way.
    """

    def __init__(self, ledger: Ledger):
        self._ledger = ledger
        self._kinds: dict[type[torch.Tensor], type[Any]] = {}
        self._handed_out: list[tuple[int, torch.Tensor, int]] = []
        self._told = False

    def begin(self, parameter: torch.Tensor) -> None:
        """Watch over a parameter that has been stepped."""
        plain = type(parameter)
        if plain in _SEEN_INTO:
            kind = self._kinds.get(plain)
            if kind is None:
                kind = self._kinds[plain] = _kind_like(plain, self)
            parameter.__class__ = kind

    def turn(self) -> None:
        """Begin the next step."""
        self._told = False
        if self._handed_out:
            self._handed_out = []

    def changed(self, parameter: torch.Tensor) -> bool:
        """Whether something wrote to the parameter through `.data`, whose changes the parameter does not count."""
        return any(key == id(parameter) and each._version != was for key, each, was in self._handed_out)

    def used(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        """Judge a call of PyTorch with a parameter that is ahead.

        Raises:
            AlreadyStepped: if it reads values inside of backward, or for a further backward.
        """
        name = func.__name__
        if name == "__set__":
            if func.__self__.__name__ == "grad" and args[1] is None:
                self._thrown_away()
            return
        if name == "__get__":
            if func.__self__.__name__ not in _VIEWS:
                return
        elif name not in _VALUES and not _are_new(result):
            return
        parameter = next(each for each in tensors_in((*args, *kwargs.values())) if isinstance(each, Telling))
        slot = self._slot_of(parameter)
        if in_backward():
            raise AlreadyStepped(read_in_backward(slot.name(), self._ledger))
        # Views made below autograd, as a compiled forward makes them, require a gradient under no_grad as well.
        if torch.is_grad_enabled() and any(each.requires_grad for each in tensors_in([result])):
            raise AlreadyStepped(used_too_early(slot.name(), self._ledger))
        if name == "__get__" and func.__self__.__name__ == "data":
            self._handed_out.append((id(parameter), result, result._version))
        if not self._told:
            self._told = True
            self._warn(read_too_early(slot.name(), self._ledger))

    def _thrown_away(self) -> None:
        """Note that a gradient was taken away, of which the step is taken."""
        ledger = self._ledger
        if not ledger.passing and not ledger.thrown_away:
            ledger.thrown_away = True
            self._warn(thrown_away([slot for slot, _ in ledger.stepped]))

    def _warn(self, text: str) -> None:
        warn(text, ReleaseWarning)

    def _slot_of(self, parameter: torch.Tensor) -> Slot:
        return next(slot for slot, each in self._ledger.stepped if each is parameter)


class Telling:
    """What the classes of parameters that are ahead have besides their own; copies and pickles are plain."""

    __slots__ = ()
    plain: ClassVar[type[Any]]
    watch: ClassVar[weakref.ref[Ahead]]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Do what PyTorch would do, and have it judged."""
        kwargs = kwargs or {}
        if all(issubclass(each, Telling) for each in types):
            with no_subclass_function():
                result = func(*args, **kwargs)
        else:  # a class of the program has a word in it
            result = _call_with_plain(func, args, kwargs)
        watch = cls.watch()
        if watch is not None:
            watch.used(func, args, kwargs, result)
        return result

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            plain = self._as_plain()
            memo[id(self)] = plain.__deepcopy__(memo)
            memo.pop(id(plain), None)  # it is gone soon, and the next one may have its address
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self._as_plain().__reduce_ex__(protocol)

    def _as_plain(self) -> Any:
        """Return another tensor with the same memory, of the class that this parameter has else."""
        own: Any = self
        made = make_alike(self.plain, own.detach(), own.requires_grad)
        made.__dict__.update(own.__dict__)
        return made


def end(parameter: torch.Tensor) -> None:
    """Have a parameter be of its own class again."""
    kind = type(parameter)
    if issubclass(kind, Telling):
        parameter.__class__ = kind.plain


def set_gradient(parameter: torch.Tensor, gradient: torch.Tensor | None) -> None:
    """Set the gradient of a parameter that may be ahead, on behalf of nobody in the program."""
    with no_subclass_function():
        parameter.grad = gradient


def _kind_like(plain: type[Any], watch: Ahead) -> type[Any]:
    """Return a class of parameters that are ahead, which looks like `plain`."""
    names = {
        "__slots__": (),
        "__module__": plain.__module__,
        "__qualname__": plain.__qualname__,
        "__doc__": plain.__doc__,
        "plain": plain,
        "watch": weakref.ref(watch),
    }
    metaclass: Any = type(plain)
    made: type[Any] = metaclass(plain.__name__, (Telling, plain), names)
    return made


def _are_new(result: Any) -> bool:
    """Whether a call returned tensors other than parameters that are ahead, as a call in place does."""
    return any(not isinstance(each, Telling) for each in tensors_in([result]))


def _call_with_plain(func: Any, args: Any, kwargs: Any) -> Any:
    """Call a function of PyTorch as if no parameter were ahead."""
    ours = [(each, type(each)) for each in tensors_in((*args, *kwargs.values())) if isinstance(each, Telling)]
    for each, _ in ours:
        end(each)
    try:
        return func(*args, **kwargs)
    finally:
        for each, kind in ours:
            each.__class__ = kind
