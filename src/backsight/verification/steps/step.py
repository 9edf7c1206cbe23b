"""`Step`: one operation of a forward, as it runs; `Stepping` alters how some of them are differentiated."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from types import FrameType
from typing import Any, TypeAlias

import torch
from torch.overrides import TorchFunctionMode

from backsight.source.body import column_at
from backsight.verification._torch import FOLDER
from backsight.verification.steps.composed import COMPOSED

INDICES = (torch.int64, torch.int32)

_HERE = __file__
_OWN = os.path.dirname(os.path.dirname(os.path.dirname(__file__))) + os.sep


@dataclass(slots=True, eq=False)
class Step:
    """An operation with its arguments and its result.

    `key` is the same for each run of the same place in the source, as in a loop, and `run` the number of the run;
    `place` is where it stands, in the innermost function that is not PyTorch's. `made` finds the step whose result a
    tensor is, and `within` is the composition that the step is part of.
    """

    name: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: torch.Tensor
    key: Hashable
    place: tuple[str, int, int | None] | None
    run: int = 0
    within: str = ""
    made: Callable[[Any], Step | None] = lambda _: None

    def operand(self, number: int) -> torch.Tensor | None:
        """Return a positional argument that carries a gradient."""
        found = self.args[number] if number < len(self.args) else None
        return found if isinstance(found, torch.Tensor) and found.requires_grad else None

    def origin(self, number: int) -> Step | None:
        """Return the step that made a positional argument."""
        return self.made(self.args[number]) if number < len(self.args) else None

    def with_operand(self, number: int, other: torch.Tensor) -> torch.Tensor:
        """Return the result with another operand."""
        args = (*self.args[:number], other, *self.args[number + 1 :])
        made: torch.Tensor = self.function(*args, **self.kwargs)
        return made

    def with_derivative_of(self, other: torch.Tensor) -> torch.Tensor:
        """Return the result as it is, with the derivative that another has."""
        return self.result.detach() + (other - other.detach())


Alter: TypeAlias = Callable[[Step], torch.Tensor | None]
"""Makes another result of a step, of the same values and with another derivative; None where it does not apply."""


class Stepping(TorchFunctionMode):
    """Runs the steps of a forward, those with some `keys` altered; `steps` are the last ones with each key.

    `runs` are all of them. `constants` are those whose result carries no gradient, such as a target in another form,
    `integers` those that make indices, and `in_order` all. Steps in `cut` are numbers: a maximum that
    only keeps exp from overflowing.

    Common compositions, such as a softmax, are run in the steps that they stand for.
    """

    def __init__(
        self,
        keys: frozenset[Hashable] = frozenset(),
        alter: Alter | None = None,
        cut: frozenset[Hashable] = frozenset(),
    ):
        super().__init__()
        self.steps: dict[Hashable, Step] = {}
        self.runs: dict[Hashable, list[Step]] = {}
        self.constants: dict[Hashable, Step] = {}
        self.integers: dict[Hashable, Step] = {}
        self.in_order: dict[Hashable, Step] = {}
        self.altered = 0
        self._keys = keys
        self._cut = cut
        self._alter = alter
        self._made_by: dict[int, Step] = {}
        self._within: list[str] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = _name(func)
        result = self._made(func, _composition(func, name), args, kwargs)
        frame = sys._getframe(1)
        if type(result).__module__ == "torch.return_types":  # the largest values, and where they are
            first, *others = result
            return type(result)(
                (self._ran(frame, name, lambda *a, **k: func(*a, **k)[0], args, kwargs, first), *others)
            )
        if not isinstance(result, torch.Tensor) or id(result) in map(id, args):
            return result
        return self._ran(frame, name, func, args, kwargs, result)

    def _ran(
        self,
        frame: FrameType,
        name: str,
        func: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        result: torch.Tensor,
    ) -> torch.Tensor:
        """Keep a step that ran; return its result, or the one that it is altered to."""
        if name == "clone" and frame.f_code.co_filename.startswith(_OWN):  # of the input: no step of the forward
            return result
        is_index = result.dtype in INDICES
        if not result.requires_grad and not result.is_floating_point() and not is_index:
            return result
        key, place = _place(frame, name)
        if is_index:
            self.integers[key] = self.in_order[key] = Step(name, func, args, kwargs, result, key, place)
            return result
        if key in self._cut:
            result = result.detach()
        runs = self.runs.setdefault(key, [])
        within = self._within[-1] if self._within else ""
        step = Step(name, func, args, kwargs, result, key, place, len(runs), within, self._origin)
        runs.append(step)
        self._made_by[id(result)] = step  # it is held by the step: its id stays its own
        known = self.steps if result.requires_grad else self.constants
        known[key] = self.in_order[key] = step  # of a loop the last run: in the first one there is nothing before it
        if self._alter is None or key not in self._keys:
            return result
        other = self._alter(step)
        if other is None:
            return result
        self.altered += 1
        return other

    def _made(
        self, function: Callable[..., Any], composed: Callable[..., Any] | None, args: tuple[Any, ...], kwargs: Any
    ) -> Any:
        """Return what a call returns, its own steps run one by one where they are known."""
        if composed is not None:
            self._within.append(composed.__name__)
            with self:
                try:
                    return composed(*args, **_said(function, kwargs))
                except TypeError:  # called with something that the composition does not take
                    pass
                finally:
                    self._within.pop()
        return function(*args, **kwargs)

    def _origin(self, value: Any) -> Step | None:
        return self._made_by.get(id(value)) if isinstance(value, torch.Tensor) else None


def _composition(function: Callable[..., Any], name: str) -> Callable[..., Any] | None:
    if name == "unfold" and function is torch.Tensor.unfold:  # windows along one dimension, a step of its own
        return None
    return COMPOSED.get(name)


def _name(function: Callable[..., Any]) -> str:
    """Return `mul` for `Tensor.__mul__`, `mT` for the getter of `Tensor.mT`."""
    name = getattr(function, "__name__", "").strip("_")
    return getattr(getattr(function, "__self__", None), "__name__", name) if name == "get" else name


def _said(function: Callable[..., Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments that are no defaults: PyTorch's Python functions hand on all of them."""
    try:
        known = inspect.signature(function).parameters
    except (TypeError, ValueError):  # builtins have no signature
        return kwargs
    return {name: each for name, each in kwargs.items() if name not in known or each is not known[name].default}


def _place(frame: FrameType | None, name: str) -> tuple[Hashable, tuple[str, int, int | None] | None]:
    """Return a key for the calls that led to a step, up to who runs the forward, and the line to show."""
    chain: list[Hashable] = [name]
    line = None
    while frame is not None and frame.f_code.co_name != RUN:
        file = frame.f_code.co_filename
        if file != _HERE:
            code = frame.f_code
            owner = frame.f_locals.get("self") if code.co_varnames[:1] == ("self",) else None
            chain.append((code, frame.f_lasti, id(owner) if isinstance(owner, torch.nn.Module) else None))
            if line is None and not file.startswith((FOLDER, _OWN)):
                line = (file, frame.f_lineno, column_at(frame))
        frame = frame.f_back
    return tuple(chain), line


RUN = "run_stepwise"
"""The name of the function below which steps are told apart."""
