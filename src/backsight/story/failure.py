"""A failure: an exception, and what the frames of its traceback show, read once and without running anything."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from types import FrameType, TracebackType
from typing import Any, Literal

import torch

from backsight.naming.frames import frame_namespace, is_function, locals_of
from backsight.naming.plain import class_dict, is_class, mro, namespace
from backsight.naming.roots import is_ours, is_user, is_user_class
from backsight.source import Body, Place, function_at, receiver_of_backward, statement_at
from backsight.source.body import calls_in, column_at, column_of, end_of, is_shared
from backsight.tape import ENGINE_CALLS, no_torch_function, tensors_in
from backsight.tracing.callers import CALL_NAME


@dataclass(frozen=True, eq=False)
class Level:
    """One level of a traceback: a frame, and the line and column at which the exception passed it.

    column: in bytes, as the syntax tree counts; None before Python 3.11, which does not keep it.
    end: the line and column at which the expression ends that raised; None where that is not known.
    """

    frame: FrameType
    line: int
    column: int | None = None
    end: tuple[int, int] | None = None

    @cached_property
    def variables(self) -> Mapping[str, object]:
        """The local variables; for code at module level, the globals."""
        if is_function(self.frame):
            return locals_of(self.frame)
        return dict(frame_namespace(self.frame))

    @cached_property
    def body(self) -> Body | None:
        """The source of the function; None where it cannot be read."""
        return function_at(self.frame.f_code)

    @cached_property
    def statement(self) -> ast.stmt | None:
        """The statement at which the exception passed; None where the source cannot be read, or does not tell which."""
        if self.column is None and is_shared(self.body, self.line):
            return None
        return statement_at(self.body, self.line, self.column)

    @cached_property
    def running(self) -> ast.Call | None:
        """The call of that statement which the exception passed; None where that is not known."""
        every = calls_in(self.statement) if self.end is not None else ()
        return next((each for each in every if (each.end_lineno, each.end_col_offset) == self.end), None)

    @cached_property
    def receiver(self) -> str | None:
        """What that statement runs backward on, as it writes it: `loss`; None where it runs none."""
        return receiver_of_backward(self.body, self.line, self.column) if self.body else None

    @cached_property
    def place(self) -> Place:
        """Where that statement stands; without its text where the source cannot be read."""
        if self.body is None or self.statement is None:
            return Place(self.frame.f_code.co_filename, self.line, "", self.column or 0)
        return self.body.place(self.statement)

    @property
    def function(self) -> str:
        return getattr(self.frame.f_code, "co_qualname", self.frame.f_code.co_name)

    def runs_custom(self, method: str) -> bool:
        """Whether it is this method of a custom Function, which autograd runs with gradients disabled."""
        given = next(iter(self.variables.values()), None)
        return self.frame.f_code.co_name == method and issubclass(type(given), torch.autograd.function.FunctionCtx)

    def value(self, name: str) -> object:
        """The value of a variable or a chain of attributes, `self.hidden`; None where no plain attribute holds it."""
        first, *rest = name.split(".")
        held = self.variables.get(first, self.frame.f_globals.get(first))
        return follow(held, rest)


@dataclass(frozen=True, eq=False)
class Failure:
    """An exception, and the traceback as an explanation needs it.

    levels: every level, outermost first.
    users: those of the user's own code, innermost first; of a backward only what called it.
    call: which of PyTorch's functions started the engine, if the engine raised.
    roots: the tensors that it was called on.
    told: the user's line that raised in another process, of which the text of a traceback tells, and no level.

    Holds frames: to be dropped as soon as the explanation is written.
    """

    error: BaseException
    message: str
    levels: tuple[Level, ...]
    users: tuple[Level, ...]
    call: Literal["backward", "grad"] | None = None
    roots: tuple[Any, ...] = ()
    inputs: tuple[Any, ...] = ()
    told: Place | None = None

    @property
    def user(self) -> Level | None:
        """The innermost level of the user's code."""
        return self.users[0] if self.users else None

    @property
    def frames(self) -> tuple[FrameType, ...]:
        """The frames of the user's code, innermost first, to be searched for names."""
        return tuple(level.frame for level in self.users)

    @property
    def source(self) -> str | None:
        """Where the user's code failed, as `file:line`."""
        return str(self.user.place) if self.user else None


def failure_of(error: BaseException) -> Failure:
    """Read the traceback of `error`."""
    return failure_from(error, tuple(_levels(error)))


def failure_at(warning: Warning, frame: FrameType | None) -> Failure:
    """Read the stack below `frame`, where `warning` is just being given."""
    return failure_from(warning, tuple(reversed(list(stack(frame)))))


def failure_within(error: BaseException, frame: FrameType) -> Failure:
    """Read the traceback of `error` as it passes a call that `frame` has made, and the stack below that."""
    return failure_from(error, (*reversed(list(stack(frame))), *_levels(error)))


def around_engine(failure: Failure) -> Failure:
    """The same failure as what started the engine sees it, where that has called the user's code: a custom Function's
    `backward`, which asks for saved tensors."""
    engine = max((k for k, level in enumerate(failure.levels) if level.frame.f_code in ENGINE_CALLS), default=-1)
    return failure if engine < 0 else failure_from(failure.error, failure.levels[: engine + 1])


def failure_from(error: BaseException, levels: tuple[Level, ...]) -> Failure:
    """Return the failure that levels tell, outermost first."""
    users = [k for k, level in enumerate(levels) if is_user(level.frame) and not _is_ours(level)]
    engine = max((k for k, level in enumerate(levels) if level.frame.f_code in ENGINE_CALLS), default=-1)
    if users and engine < users[-1]:  # raised by the user's own code, which backward may have called
        engine = -1
    innermost_first = tuple(levels[k] for k in reversed(users))
    if engine < 0:
        return Failure(error, message_of(error), levels, innermost_first)
    call, roots = ENGINE_CALLS[levels[engine].frame.f_code]
    held = levels[engine].variables
    with no_torch_function():
        return Failure(
            error,
            message_of(error),
            levels,
            innermost_first,
            "grad" if call == "grad" else "backward",
            tuple(tensors_in(held.get(roots))),
            tuple(tensors_in(held.get("inputs_tuple", held.get("inputs")))),  # `inputs` may be an iterator, used up
        )


def message_of(error: BaseException) -> str:
    """Return the text that an exception was made with; no `__str__` of the user's is asked."""
    arguments: tuple[object, ...] = BaseException.args.__get__(error)  # type: ignore[attr-defined]  # a getset
    return next((text for text in arguments if type(text) is str), "")


def of_error(error: BaseException, name: Literal["__traceback__", "__cause__", "__context__"]) -> Any:
    """Return what Python itself keeps of an exception, past a class of the user's that answers for it."""
    return vars(BaseException)[name].__get__(error)


def follow(held: object, attributes: list[str]) -> object:
    """Return what a chain of attributes leads to, past every property and `__getattr__`; None where it ends."""
    for attribute in attributes:
        inside = namespace(held) or {}
        if attribute in inside:
            held = inside[attribute]
        elif issubclass(type(held), torch.nn.Module):
            held = entry_of(held, attribute)
        else:
            held = _of_class(held if is_class(held) else type(held), attribute)
    return held


def function_of(value: object) -> Any:
    """Return the Python function that a call of `value` runs: a method's, a module's `forward`, `__call__`; or None."""
    value = value.func if type(value) is partial else value
    value = getattr(value, "__func__", value) if type(value).__name__ in ("method", "staticmethod") else value
    if type(value).__name__ == "function":
        return value
    return method(type(value), "forward" if issubclass(type(value), torch.nn.Module) else "__call__")


def owner_of(value: object) -> object:
    """Return the object that a call of `value` gives to its function as `self`, and what gives it more than that, a
    partial; None for a plain function."""
    if type(value).__name__ == "method":
        return getattr(value, "__self__", None)
    return None if issubclass(type(value), type) or type(value).__name__ == "function" else value


def bound_to(function: Any, owner: object) -> dict[str, object]:
    """Return what the parameters of a function stand for in each call: `self`, and what a partial has been given."""
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    if type(owner) is not partial:
        return {} if owner is None else dict(zip(names[:1], [owner], strict=False))
    first = owner_of(owner.func)
    given = owner.args if first is None else (first, *owner.args)
    return {**dict(zip(names, given, strict=False)), **owner.keywords}


def method(cls: type, name: str) -> Any:
    """Return the plain function behind a method of `cls`; None if there is none."""
    for base in mro(cls):
        found: Any = class_dict(base).get(name)
        if found is not None:
            found = found.__func__ if type(found) in (staticmethod, classmethod) else found
            return found if type(found).__name__ == "function" else None
    return None


def is_users(cls: type) -> bool:
    """Whether a class is the program's own."""
    return is_user_class(class_dict(cls).get("__module__"))


def _of_class(cls: type, attribute: str) -> object:
    """Return the plain value that a class has by this name: a setting, never a property."""
    found = next((held[attribute] for base in mro(cls) if attribute in (held := class_dict(base))), None)
    return found if type(found) in (str, int, float, bool) else None


def entry_of(module: object, attribute: str) -> object:
    """Return the parameter, buffer or child of a module by this name."""
    inside = namespace(module) or {}
    tables = (inside.get(table) for table in ("_parameters", "_buffers", "_modules"))
    return next((table[attribute] for table in tables if type(table) is dict and attribute in table), None)


def _levels(error: BaseException) -> Iterator[Level]:
    trace: TracebackType | None = of_error(error, "__traceback__")
    while trace is not None:
        code, at = trace.tb_frame.f_code, trace.tb_lasti
        yield Level(trace.tb_frame, trace.tb_lineno, column_of(code, at, trace.tb_lineno), end_of(code, at))
        trace = trace.tb_next


def stack(frame: FrameType | None) -> Iterator[Level]:
    """Yield the levels from a frame outwards."""
    while frame is not None:
        yield Level(frame, frame.f_lineno, column_at(frame))
        frame = frame.f_back


def _is_ours(level: Level) -> bool:
    code = level.frame.f_code
    return is_ours(code.co_filename) or code.co_name == CALL_NAME
