"""The statements of a function that step an optimizer: what a name stands for counts, and not the name."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, cast

import torch

from backsight.source import Body, LoopFacts, Place, loop_facts, statement_at
from backsight.source.body import begins, callee, calls_in, covers, expressions, statements
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, Level, method
from backsight.story.memory import is_module
from backsight.tape import parameters_in
from backsight.tracing.steps import parameters


class Function(Protocol):
    """A function whose source and variables are at hand: a level of a traceback, a section."""

    @property
    def body(self) -> Body | None: ...

    def value(self, name: str) -> object: ...


@dataclass(frozen=True, eq=False)
class Step:
    """A statement that steps an optimizer.

    call: what does it, `optimizer.step()`. name: what the statement calls the optimizer. optimizer: None if it is not
        known, as its variable is gone.
    """

    place: Place
    call: str
    name: str
    optimizer: object

    @property
    def trained(self) -> frozenset[int]:
        """The ids of the parameters that it trains, as far as they are known."""
        return parameters_of(self.optimizer) if not is_module(self.optimizer) else frozenset()


def steps_in(function: Function) -> Iterator[Step]:
    """Yield the statements that call `.step()` of an optimizer, or `.step(optimizer)` as a gradient scaler has it.

    A receiver that is not known, as its variable is gone, may be one: then `.step()` counts without arguments.
    """
    body = function.body
    for statement in statements(body):
        every = list(expressions(statement))
        later = {id(node) for each in every if isinstance(each, ast.Lambda) for node in ast.walk(each.body)}
        for call in every:
            if id(call) in later:  # runs when the lambda is called, not here
                continue
            receiver, name = callee(call) if isinstance(call, ast.Call) else (None, "")
            if body is None or name != "step" or receiver is None or not isinstance(call, ast.Call):
                continue
            is_known = value_of(function, receiver) is not None
            given = [receiver, *call.args] if is_known else []
            node = next((each for each in given if is_optimizer(value_of(function, each))), None)
            if node is not None or not (is_known or call.args):
                optimizer = value_of(function, node) if node is not None else None
                yield Step(body.place(statement), body.text(call), body.text(node or receiver), optimizer)
                break


def optimizer_steps(function: Function) -> tuple[Place, ...]:
    return tuple(step.place for step in steps_in(function))


def trained_next(level: Level) -> frozenset[int] | None:
    """The ids of the parameters that the steps after the line of a level train with the gradients of its backward: not
    those whose gradients are zeroed in between. None if one of these optimizers is not known."""
    found, zeroed = set[int](), set[int]()
    steps = {each.place.position: each for each in steps_in(level)}
    for statement in statements(level.body):
        if begins(statement) <= level.place.position:
            continue
        if (step := steps.get(begins(statement))) is not None:
            if not step.trained:
                return None
            found |= step.trained - zeroed
        for call in calls_in(statement):
            receiver, name = callee(call)
            if name == "zero_grad" and receiver is not None:
                zeroed |= parameters_of(value_of(level, receiver))
    return frozenset(found)


def parameters_of(value: object) -> frozenset[int]:
    """The ids of the parameters of an optimizer, or of a module."""
    if issubclass(type(value), torch.optim.Optimizer):
        return frozenset(map(id, parameters(cast(torch.optim.Optimizer, value))))
    return frozenset(map(id, parameters_in(value))) if is_module(value) else frozenset()


def steps_of_pass(level: Level, facts: LoopFacts | None = None) -> tuple[Place, ...]:
    """The steps between the line at which a level is and the same line in the next pass: those in the loop of `facts`,
    or else in the innermost one around the line; all of a function's where there is no loop."""
    facts = facts or loop_facts(level.body, level.line)
    loop = statement_at(level.body, *facts.loop.position) if facts is not None else None
    every = optimizer_steps(level)
    return tuple(each for each in every if loop is None or covers(loop, each.line))


def is_optimizer(value: object) -> bool:
    """Whether `value` is an optimizer, or of a class that steps and zeroes gradients like one."""
    kind = type(value)
    likewise = all(method(kind, name) is not None for name in ("step", "zero_grad"))
    return issubclass(kind, torch.optim.Optimizer) or (likewise and not issubclass(kind, torch.nn.Module))


@dataclass(frozen=True, eq=False)
class OpenStep:
    """A step that has not returned: it is calling a closure, in which the failure came.

    outer: the level that steps. inner: the closure's. levels: every level of the user's code.
    """

    outer: Level
    inner: Level
    levels: tuple[Level, ...]


def open_step(failure: Failure, optimizer: object) -> OpenStep | None:
    """The step of `optimizer` in which the failure came, if there is one."""
    frames = [level.frame for level in failure.levels]
    running = (
        k
        for k, level in enumerate(failure.levels)
        if level.frame.f_code.co_name == "step" and level.value("self") is optimizer is not None
    )
    step = next(running, None)
    if step is None:
        return None
    outer = [each for each in failure.users if frames.index(each.frame) < step]
    inner = [each for each in failure.users if frames.index(each.frame) > step]
    return OpenStep(outer[0], inner[-1], failure.users) if outer and inner else None
