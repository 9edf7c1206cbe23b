"""`recording`: keep every operation that makes autograd nodes while something runs.

Operations of PyTorch are seen by a `TorchFunctionMode`. It does not see `Function.apply`, so calls of that are seen by
a profile function, which Python runs at every call in this thread: the class is in the call of what is C in there, on
every version, and the arguments are in the frame of the `forward` that it calls. Both are gone at the end.

Inside of torch.func and torch.vmap the mode sees every call, those of Functions too, on wrapped tensors. Kept are the
tensors inside of the wrappers, of a batch its first sample: then it is the call of an operation like any other.
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

from backsight.source.body import column_at
from backsight.tape import next_sequence_number, no_torch_function
from backsight.verification._torch import (
    FOLDER,
    GENERATED,
    INTERNAL,
    applied,
    is_call,
    is_generated,
    operator_name,
    seen_through,
    transforming,
)
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
    """An operation that could not be kept, and why; `own` as in `Skipped`."""

    name: str
    why: str
    own: bool


@dataclass
class _Custom:
    """A custom Function that is being applied: by which frame, the number that its node gets, the code of its `forward`
    until that is called, and then what is kept of it. `understood` says that its nodes are accounted for: by what is
    kept, or because they carry no gradient of the program's."""

    function: type
    caller: FrameType
    before: int
    forward: CodeType | None
    understood: bool
    kept: Operation | Unkept | None = None


class Recorder(TorchFunctionMode):
    """Keeps the operations that run while it is entered.

    `operations` are in the order in which they ended. `unseen` is the number of autograd nodes that none of them made:
    those of the rules of torch.func and torch.vmap, and of a backward with create_graph=True. `failed` are operations
    by name that could not be kept, and why.
    """

    def __init__(self) -> None:
        super().__init__()
        self.operations: list[Operation] = []
        self.copies = Copies()
        self.unseen = 0
        self.failed: dict[str, Unkept] = {}
        self._custom: list[_Custom] = []
        self._running = False

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if self._custom or not torch.is_grad_enabled():
            return func(*args, **kwargs)
        taken = self._called(func, args, kwargs, _site(sys._getframe(1)))
        if taken is None or taken.name in ("backward", "grad"):
            return func(*args, **kwargs)
        before, self._running = next_sequence_number(), True
        try:
            result = func(*args, **kwargs)
        finally:
            self._running = False
        self._made(taken, before)
        return result

    def _called(
        self, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], site: Site | None
    ) -> Operation | Unkept | None:
        if not is_call(func):
            return self._taken(_name(func), func, args, kwargs, Definition.of_operator(func), site)
        custom: Any = args[0]
        return self._taken(
            _name_of(custom), custom.apply, args[1:], kwargs, Definition.of_function(custom), site, custom
        )

    def _made(self, operation: Operation | Unkept | None, before: int, understood: bool = True) -> None:
        """Keep an operation if it made nodes; those that a transform's rules made beside are still unseen."""
        made = next_sequence_number() - before
        if made and understood and not self._running and not transforming():
            self.unseen -= made
        if made and isinstance(operation, Operation):
            self.operations.append(operation)
        elif made and isinstance(operation, Unkept):
            self.failed[operation.name] = operation

    def profile(self, frame: FrameType, event: str, given: Any) -> None:
        """Notice calls of `Function.apply`; for `sys.setprofile`."""
        if event == "call":
            if self._custom and (last := self._custom[-1]).forward is frame.f_code and frame.f_back is last.caller:
                last.forward, last.understood = None, True
                last.kept = self._applied(last, frame)
        elif event != "return" and (function := applied(given)) is not None:
            if transforming() or is_generated(function):  # the mode sees it, or what it runs on the tensors inside
                return
            if event == "c_call":
                forward = None if self._custom or not _verified(function) else _forward_of(function)
                understood = _is_internal(function) or not torch.is_grad_enabled()
                self._custom.append(_Custom(function, frame, next_sequence_number(), forward, understood))
            elif self._custom:
                last = self._custom.pop()
                if not self._custom:
                    kept = last.kept if event == "c_return" else None
                    self._made(kept, last.before, last.understood)

    def _applied(self, custom: _Custom, forward: FrameType) -> Operation | Unkept | None:
        function = custom.function
        written = Definition.of_function(function)
        with no_torch_function():
            apply: Any = function.apply  # type: ignore[attr-defined]  # it is a Function
            given = _given(forward, written.takes_ctx, bound=inspect.ismethod(getattr(function, "forward", None)))
            return self._taken(_name_of(function), apply, given, {}, written, _site(custom.caller), function)

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
        found = {k: _plain(each) for k, each in enumerate(flat) if isinstance(each, torch.Tensor)}
        if not any(wanted for _, wanted in found.values()):
            return None
        try:
            kept = [Kept(self.copies.of(found[k][0]), found[k][1]) if k in found else t for k, t in enumerate(flat)]
        except Exception as error:  # a tensor that cannot be copied must not stop the user's function
            return Unkept(name, f"it could not be kept: {raised(error)}", own=definition is not None)
        generators = tuple((each, each.get_state()) for each in flat if isinstance(each, torch.Generator))
        return Operation(name, function, tuple(kept), spec, site, custom, generators, definition)


@contextmanager
def recording(recorder: Recorder | None = None) -> Iterator[Recorder]:
    """Record what runs inside, beside what a recorder has already.

    A profiler that is running, such as cProfile, is given its place back after. One that cannot be put back stays, and
    calls of `Function.apply` are not seen.
    """
    recorder = recorder or Recorder()
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


def _plain(tensor: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """Return a tensor as the operation itself would see it, and whether a gradient is wanted."""
    return seen_through(tensor) if transforming() else (tensor, tensor.requires_grad)


def _name_of(function: type) -> str:
    return function.__qualname__.rpartition("<locals>.")[2]


def _is_internal(function: type) -> bool:
    return function.__name__ in INTERNAL or function.__name__.startswith(GENERATED)


def _verified(function: type) -> bool:
    return not _is_internal(function) and torch.is_grad_enabled()


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
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno, column_at(frame))
