"""The statements of a function that step an optimizer: what a name stands for counts, and not the name."""

from __future__ import annotations

import ast
from typing import Protocol

import torch

from backsight.source import Body, Place
from backsight.source.body import callee, expressions, statements
from backsight.story.evaluated import value_of
from backsight.story.failure import method


class Function(Protocol):
    """A function whose source and variables are at hand: a level of a traceback, a section."""

    @property
    def body(self) -> Body | None: ...

    def value(self, name: str) -> object: ...


def optimizer_steps(function: Function) -> tuple[Place, ...]:
    """Return the statements that call `.step()` of an optimizer, or `.step(optimizer)` as a gradient scaler has it.

    A receiver that is not known, as its variable is gone, may be one: then `.step()` counts without arguments.
    """
    body = function.body
    if body is None:
        return ()
    return tuple(
        body.place(each)
        for each in statements(body.node)
        if any(isinstance(node, ast.Call) and _steps(function, node) for node in expressions(each))
    )


def is_optimizer(value: object) -> bool:
    """Whether `value` is an optimizer, or of a class that steps and zeroes gradients like one."""
    kind = type(value)
    likewise = all(method(kind, name) is not None for name in ("step", "zero_grad"))
    return issubclass(kind, torch.optim.Optimizer) or (likewise and not issubclass(kind, torch.nn.Module))


def _steps(function: Function, call: ast.Call) -> bool:
    receiver, name = callee(call)
    if name != "step" or receiver is None:
        return False
    value = value_of(function, receiver)
    if value is None:
        return not call.args
    return any(is_optimizer(each) for each in (value, *(value_of(function, given) for given in call.args)))
