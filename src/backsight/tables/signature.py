"""The parameters of a function that `backsight verify` calls, and which inputs they take."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeGuard

import torch

from backsight.tables.passed import never_differentiated, passed
from backsight.text import counted, listed

if TYPE_CHECKING:
    from backsight.tables.cases import Input

INPUTS = "verify_inputs"
"""The name of a function beside the one that is verified, or in its class, that returns the inputs."""

_PLAIN: dict[Any, Any] = {int: 2, float: 0.5, bool: True, "int": 2, "float": 0.5, "bool": True}
"""What is given for a parameter that its annotation says to be a number."""


class NoCase(Exception):
    """There is nothing that could be called. The message says why and what to write."""


@dataclass(frozen=True)
class Signature:
    """The positional parameters of a function, and what is known of them without a look at shapes."""

    name: str
    parameters: tuple[inspect.Parameter, ...]
    open: bool
    """Whether it takes any number of inputs, or nothing says how many."""
    known: dict[str, Any]
    """Parameters that are no tensors in the program, with what it passes."""
    options: frozenset[str]
    """Parameters for which backward always returns None."""

    @classmethod
    def of(cls, name: str, function: Callable[..., Any], target: Any, beside: ModuleType | None) -> Signature:
        called = function.forward if isinstance(function, torch.nn.Module) else function
        drop = 0
        if is_function(target):
            called = target.forward
            drop = int(target.setup_context is torch.autograd.Function.setup_context)  # ctx
        try:
            declared = list(inspect.signature(called).parameters.values())[drop:]
            unsure = any(each.kind is each.VAR_POSITIONAL for each in declared)
        except (TypeError, ValueError):  # a builtin: one input is the best guess
            declared, unsure = [inspect.Parameter("input", inspect.Parameter.POSITIONAL_ONLY)], True
        kept = tuple(
            each.replace(kind=each.POSITIONAL_ONLY)
            for each in declared
            if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD, each.VAR_POSITIONAL)
        )
        names = [each.name for each in kept]
        required = {each.name: each for each in kept if each.default is each.empty}
        known = {key: _PLAIN[each.annotation] for key, each in required.items() if each.annotation in _PLAIN}
        known |= {key: value for key, value in passed(name, names, beside).items() if key in required}
        none = never_differentiated(target) if is_function(target) else ()
        return cls(name, kept, unsure, known, frozenset(names[i] for i in none if i < len(names)))

    @property
    def required(self) -> list[inspect.Parameter]:
        """What has to be given: the parameters without a default."""
        return [each for each in self.parameters if each.default is each.empty]

    def has(self, given: Any) -> bool:
        """Whether this is a dict of its parameters."""
        return isinstance(given, dict) and bool(given) and given.keys() <= {each.name for each in self.parameters}

    def checked(self, values: Mapping[str, Any]) -> dict[str, Any]:
        for key in values:
            if not self.has({key: None}):
                raise NoCase(f"{self.name} has no positional parameter {key!r}: {self._takes()}.")
        return dict(values)

    def taking(self, shapes: Sequence[Input], values: Mapping[str, Any]) -> dict[Any, Input]:
        """Return the shapes by parameter: of all that has no value, or of what is not known to be a number.

        Raises:
            NoCase: if there are more shapes or fewer.
        """
        if self.open:
            return dict(enumerate(shapes))
        free = [each for each in self.parameters if each.name not in values]
        least = sum(each.default is each.empty for each in free)
        tensors = [each for each in free if each.default is each.empty and each.name not in self.known]
        if not least <= len(shapes) <= len(free):
            free = tensors
            if len(shapes) != len(free):
                number = counted(len(shapes), "shape")
                raise NoCase(
                    f"{self._takes()}, but {number} {'is' if len(shapes) == 1 else 'are'} given. Repeat --shape for "
                    f"each tensor{self._example()}."
                )
        return {each.name: shape for each, shape in zip(free, shapes, strict=False)}

    def check_fit(self, given: Any) -> None:
        """Refuse inputs that are those of another function in the file.

        Raises:
            NoCase: if they are too few or too many, or have a tensor where the program has none.
        """
        inputs = given if isinstance(given, (tuple, list)) else (given,)
        by_name = f'To give each its own: return {{"{self.name}": (...)}}'
        if not self.open and not len(self.required) <= len(inputs) <= len(self.parameters):
            raise NoCase(f"{self._takes()}, but {INPUTS}() returns {len(inputs)}. {by_name}.")
        for each, value in zip(self.parameters, inputs, strict=False):
            if isinstance(value, torch.Tensor) and each.name in self.known:
                raise NoCase(
                    f"{INPUTS}() returns a tensor for `{each.name}` of {self.name}, which is {self.known[each.name]!r} "
                    f"in the program. {by_name}."
                )

    def inputs(self, given: Mapping[Any, Any]) -> tuple[Any, ...]:
        """Return the inputs by position: those given, what is known, and the defaults between them."""
        if 0 in given:  # shapes, of which nothing says which parameters take them
            return tuple(given.values())
        values = {**self.known, **given}
        there = [i for i, each in enumerate(self.parameters) if each.name in values]
        return tuple(values.get(each.name, each.default) for each in self.parameters[: max(there, default=-1) + 1])

    def _takes(self) -> str:
        names = [each.name for each in self.parameters]
        return f"{self.name} takes {listed(names, len(names))}" if names else f"{self.name} takes no inputs"

    def _example(self) -> str:
        """Return how what is no tensor is given, if there seems to be such a parameter."""
        option = next((each.name for each in self.parameters if each.name in self.options | self.known.keys()), None)
        return f", and give what is no tensor by name: --value {option}={self.known.get(option, 0.5)}" if option else ""


def is_function(target: Any) -> TypeGuard[type[torch.autograd.Function]]:
    return isinstance(target, type) and issubclass(target, torch.autograd.Function)
