"""`recording`: keep every operation that makes autograd nodes while something runs.

Operations of PyTorch are seen by a `TorchFunctionMode`. It does not see `Function.apply`, so calls of that are seen by
a profile function, which Python runs at every call in this thread: the class is in the call of what is C in there, on
every version, and the arguments are in the frame of the `forward` that it calls. Both are gone at the end.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode

from backsight.tape import next_sequence_number, no_torch_function
from backsight.verification._torch import FOLDER, GENERATED, INTERNAL, applied, operator_name, transforming
from backsight.verification.definition import Definition
from backsight.verification.errors import raised
from backsight.verification.operation import Kept, Operation, Site, flattened

_OWN = os.path.dirname(os.path.dirname(__file__)) + os.sep
_COMMANDS = os.path.join(_OWN, "tables") + os.sep


class Copies:
    """Copies of tensors as they are now; one that did not change since is copied once."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[torch.Tensor, int, torch.Tensor]] = {}
        self._first: dict[int, tuple[torch.Tensor, int, torch.Tensor]] = {}

    def of(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a copy without a graph."""
        version = -1 if tensor.is_inference() else tensor._version
        known = self._made.get(id(tensor))
        if known is not None and known[1] == version:
            return known[2]
        copy = tensor.detach().clone()
        self._made[id(tensor)] = made = (tensor, version, copy)  # the tensor is held: its id must stay its own
        self._first.setdefault(id(tensor), made)
        return copy

    def leaves(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Yield each leaf with its first copy: batch_norm changes running statistics without counting a version."""
        for tensor, version, copy in self._first.values():
            if version >= 0 and tensor.is_leaf:
                yield tensor, copy


class Unkept(NamedTuple):
    """An operation whose arguments could not be copied."""

    name: str
    why: str


@dataclass
class _Custom:
    """A custom Function that is being applied: by which frame, the number that its node gets, the code of its `forward`
    until that is called, and then what is kept of it."""

    function: type
    caller: FrameType
    before: int
    forward: CodeType | None
    kept: Operation | Unkept | None = None


class Recorder(TorchFunctionMode):
    """Keeps the operations that run while it is entered.

    `operations` are in the order in which they ended. `unseen` is the number of autograd nodes that none of them made:
    those of torch.func, torch.vmap and of a backward with create_graph=True. `failed` are operations by name that could
    not be kept, and why.
    """

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[Operation] = []
        self.copies = Copies()
        self.unseen = 0
        self.failed: dict[str, str] = {}
        self._custom: list[_Custom] = []
        self._running = False

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if self._custom or not torch.is_grad_enabled() or transforming():
            return func(*args, **kwargs)
        taken = self._taken(_name(func), func, args, kwargs, Definition.of_operator(func), _site(sys._getframe(1)))
        if taken is None or taken.name in ("backward", "grad"):
            return func(*args, **kwargs)
        before, self._running = next_sequence_number(), True
        try:
            result = func(*args, **kwargs)
        finally:
            self._running = False
        self._made(taken, before)
        return result

    def _made(self, operation: Operation | Unkept | None, before: int) -> None:
        """Keep an operation if it made nodes."""
        made = next_sequence_number() - before
        if made and not self._running:
            self.unseen -= made
        if made and isinstance(operation, Operation):
            self.operations.append(operation)
        elif made and isinstance(operation, Unkept):
            self.failed[operation.name] = operation.why

    def profile(self, frame: FrameType, event: str, given: Any) -> None:
        """Notice calls of `Function.apply`; for `sys.setprofile`."""
        if event == "call":
            if self._custom and (last := self._custom[-1]).forward is frame.f_code and frame.f_back is last.caller:
                last.forward = None
                last.kept = self._applied(last, frame)
        elif event != "return" and (function := applied(given)) is not None:
            if event == "c_call":
                forward = None if self._custom or not _verified(function) else _forward_of(function)
                self._custom.append(_Custom(function, frame, next_sequence_number(), forward))
            elif self._custom:
                last = self._custom.pop()
                if not self._custom:
                    self._made(last.kept if event == "c_return" else None, last.before)

    def _applied(self, custom: _Custom, forward: FrameType) -> Operation | Unkept | None:
        function = custom.function
        written, name = Definition.of_function(function), function.__qualname__.rpartition("<locals>.")[2]
        with no_torch_function():
            apply: Any = function.apply  # type: ignore[attr-defined]  # it is a Function
            given = _given(forward, written.takes_ctx, bound=inspect.ismethod(getattr(function, "forward", None)))
            return self._taken(name, apply, given, {}, written, _site(custom.caller), function)

    def _taken(
        self,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        definition: Definition | None,
        site: Site | None,
        custom: type | None = None,
    ) -> Operation | Unkept | None:
        """Return the call that is about to be made; None where nothing in it requires a gradient."""
        flat, spec = flattened(args, kwargs)
        if not any(isinstance(each, torch.Tensor) and each.requires_grad for each in flat):
            return None
        try:
            kept = [Kept(self.copies.of(t), t.requires_grad) if isinstance(t, torch.Tensor) else t for t in flat]
        except Exception as error:  # a tensor that cannot be copied must not stop the user's function
            return Unkept(name, raised(error))
        generators = tuple((each, each.get_state()) for each in flat if isinstance(each, torch.Generator))
        return Operation(name, function, tuple(kept), spec, site, custom, generators, definition)


@contextmanager
def recording() -> Iterator[Recorder]:
    """Record what runs inside. A profiler that is running, such as cProfile, is given its place back after.

    One that cannot be put back stays, and calls of `Function.apply` are not seen.
    """
    recorder = Recorder()
    theirs: Any = sys.getprofile()
    ours = theirs is None or callable(theirs)

    def both(frame: FrameType, event: str, given: Any) -> None:
        recorder.profile(frame, event, given)
        if theirs is not None:
            theirs(frame, event, given)

    before = next_sequence_number()
    with recorder:
        if ours:
            sys.setprofile(both)
        try:
            yield recorder
        finally:
            if ours:
                sys.setprofile(theirs)
            recorder.unseen += next_sequence_number() - before


def _verified(function: type) -> bool:
    internal = function.__name__ in INTERNAL or function.__name__.startswith(GENERATED)
    return not internal and torch.is_grad_enabled() and not transforming()


def _forward_of(function: Any) -> CodeType | None:
    """Return the code that is run first when a Function calls its `forward`: that of the decorator, if it has one."""
    forward = function.forward
    return getattr(getattr(forward, "__func__", forward), "__code__", None)


def _given(forward: FrameType, takes_ctx: bool, bound: bool) -> tuple[Any, ...]:
    """Return the arguments that a Function was applied to, from the frame of its `forward`, which begins."""
    code, held = forward.f_code, forward.f_locals
    given = [held[name] for name in code.co_varnames[: code.co_argcount]]
    if code.co_flags & inspect.CO_VARARGS:
        given += held[code.co_varnames[code.co_argcount + code.co_kwonlyargcount]]
    given = given[bound:]
    if not takes_ctx:
        return tuple(given)
    ctx, *given = given
    return tuple(given[: len(ctx.needs_input_grad)])  # what is beyond are defaults, which take no gradient


def _name(function: Callable[..., Any]) -> str:
    """`add` for `Tensor.__add__`, `T` for the getter of `Tensor.T`, `mylib::sin` for an operator of `torch.library`."""
    operator = operator_name(function)
    if operator is not None:
        return operator
    name = getattr(function, "__name__", type(function).__name__)
    if name in ("__get__", "__set__"):
        name = getattr(getattr(function, "__self__", None), "__name__", name)
    return name.strip("_") if name.startswith("__") else str(name)


def _site(frame: FrameType | None) -> Site | None:
    """Return the line of the user's code that is running."""
    while frame is not None and frame.f_code.co_filename.startswith((FOLDER, _OWN)):
        if frame.f_code.co_filename.startswith(_COMMANDS):  # `backsight verify`: nobody's line called it
            return None
        frame = frame.f_back
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)
