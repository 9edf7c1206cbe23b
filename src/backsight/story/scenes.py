"""The functions in which a saved tensor may have been changed, and what it may be called there."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from backsight.source import Place, function_at
from backsight.source.ancestry import ancestors
from backsight.source.bindings import target_names, uses
from backsight.source.body import callee, dotted, statements
from backsight.source.changes import memory_of
from backsight.source.definitions import values_of
from backsight.source.edits import write
from backsight.source.rewriting import rewritten
from backsight.story.failure import Level, function_of
from backsight.story.sections import (
    MOST,
    Section,
    arguments,
    body_of,
    function_called,
    held_by,
    property_of,
    results_of,
    sections,
    undecorated,
)
from backsight.story.subject import Subject
from backsight.tape import modules_in


@dataclass(frozen=True, eq=False)
class Scene:
    """A function to look at.

    held: the names in its text that stand for the very memory now.
    running: those that run over the parameters of a module that holds the weight.
    caller, call, given: for a function that is called for its effect, `clip(gates)`: where, and what its parameters
        are called there.
    """

    section: Section
    held: frozenset[str] = frozenset()
    running: frozenset[str] = frozenset()
    caller: Scene | None = None
    call: Place | None = None
    given: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def names(self) -> Mapping[str, str]:
        """What may hold the tensor here, by the text too, and for each what the caller calls it."""
        names = self.held | self.running
        for goal, line in self.section.goals:
            names |= ancestors(self.section.body, goal, line).keys()
        passed = {name: outer for name, outer in self.given.items() if self.caller and outer in self.caller.names}
        return {name: name for name in sorted(names)} | passed

    @property
    def function(self) -> str:
        return self.section.body.name

    @property
    def level(self) -> Level | None:
        """Its level of the traceback, or that of the function which called it for its effect; None if that is gone."""
        return (self.caller or self).section.level


def scenes(subject: Subject) -> Iterator[Scene]:
    """Yield the functions on the way to the loss, the nearest first, the forwards of the modules around the operation
    that saved the tensor, and the functions that these call for their effect; each once."""
    queue: list[Scene] = []
    seen: set[object] = set()
    for section in itertools.chain(sections(subject.failure), _forwards(subject)):
        if section.body.node not in seen and not _gives_nothing(section):
            seen.add(section.body.node)
            queue.append(_scene(subject, section))
            yield queue[-1]
    for scene in queue:  # grows as we go
        for section, call, given in _called_for_effect(scene) if len(seen) < MOST else ():
            if section.body.node not in seen:
                seen.add(section.body.node)
                queue.append(_scene(subject, section, caller=scene, call=call, given=given))
                yield queue[-1]


def _gives_nothing(section: Section) -> bool:
    """Whether a function that has returned gave no value: `ema.update(model)` only looks as if it filled something."""
    yields = (isinstance(node, ast.Yield | ast.YieldFrom) for node in ast.walk(section.body.node))
    return section.level is None and not section.goals and not any(yields)


def _scene(subject: Subject, section: Section, **called: Any) -> Scene:
    every = {use.name for statement in statements(section.body.node) for use in uses(statement)}
    held = frozenset(name for name in every if _holds(subject, section, name))
    loops = [each for each in statements(section.body.node) if isinstance(each, ast.For)]
    running = [target_names(each.target) for each in loops if _runs_over(subject, section, each.iter)]
    return Scene(section, held, frozenset().union(*running), **called)


def _holds(subject: Subject, section: Section, name: str) -> bool:
    """Whether a name stands for the memory that was saved: its value, or what a property returns."""
    value = section.value(name)
    shared = shared_by(section, name) if value is None and "." in name else ()
    return subject.is_held_by(value) or any(subject.is_held_by(each.value) for each in shared)


def _runs_over(subject: Subject, section: Section, iterated: ast.expr) -> bool:
    """Whether `iterated` goes through the parameters of a module that holds the weight: `net.parameters()`."""
    owners = [
        dotted(callee(node)[0])
        for node in ast.walk(iterated)
        if isinstance(node, ast.Call) and callee(node)[1] in ("parameters", "named_parameters")
    ]
    return any(owner and subject.is_owned_by(section.value(owner)) for owner in owners)


def _forwards(subject: Subject) -> Iterator[Section]:
    """The forwards of the module that saved the tensor and of those around it, then of all modules of the models."""
    every = (each for model in subject.survey.models.values() for _, each in modules_in(model))
    for module in (*subject.modules, *every):
        function = function_of(module)
        body = body_of(function)
        if body is not None:
            own = function.__code__.co_varnames
            held = dict(zip(own[:1], [module], strict=False))
            yield Section(body, results_of(body), held, function.__globals__, own=frozenset(own))


def _called_for_effect(scene: Scene) -> Iterator[tuple[Section, Place, Mapping[str, str]]]:
    """The functions that a statement calls without using what they return, the `__iadd__` of an object, too."""
    section = scene.section
    for statement in statements(section.body.node):
        call = operator_called(statement)
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            call = statement.value
        inner = called_function(section, call) if call is not None else None
        if inner is not None and call is not None:
            function, owner = function_called(section, call)
            yield inner, section.body.place(statement), arguments(function, owner, call)


def operator_called(statement: ast.stmt) -> ast.Call | None:
    """What `state += rate` calls of an object that has it: `state.__iadd__(rate)`; None for another statement."""
    name = _OPERATORS.get(type(statement.op)) if isinstance(statement, ast.AugAssign) else None
    if not isinstance(statement, ast.AugAssign) or name is None:
        return None
    return ast.copy_location(
        ast.Call(ast.Attribute(statement.target, name, ast.Load()), [statement.value], []), statement
    )


_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "__iadd__",
    ast.Sub: "__isub__",
    ast.Mult: "__imul__",
    ast.Div: "__itruediv__",
    ast.MatMult: "__imatmul__",
    ast.Pow: "__ipow__",
    ast.BitOr: "__ior__",
    ast.BitAnd: "__iand__",
}


def called_function(section: Section, call: ast.Call) -> Section | None:
    """The function of the user's that a call runs, with what its names stand for; None for any other."""
    function, owner = function_called(section, call)
    function = undecorated(function)
    body = body_of(function)
    if body is None:
        return None
    values = {name: section.value(outer) for name, outer in arguments(function, owner, call).items()}
    own = frozenset(function.__code__.co_varnames)
    return Section(body, (), values | held_by(function, owner), function.__globals__, own=own)


# A property that returns a tensor of its object, or what shares its memory: where that is to return a copy.


class Shared(NamedTuple):
    """The statement of a property that returns a tensor's memory, what it calls that, its value, and the same statement
    with a copy."""

    place: Place
    name: str
    value: object
    mended: str

    @property
    def written(self) -> str:
        edit = write(self.place, self.mended)
        return f"`{self.mended}` on line {self.place.line}{edit}" if self.mended else ""


def shared_by(section: Section, name: str) -> Iterator[Shared]:
    """Yield what a property returns by the memory that it has, `self.bank` for `self.queue.negatives`, where that
    returns `self.bank.detach()`; nothing for a name that is no property's."""
    path, _, attribute = name.rpartition(".")
    owner = section.value(path) if path else None
    function = property_of(type(owner), attribute) if owner is not None else None
    body = function_at(function.__code__) if function is not None else None
    if function is None or body is None:
        return
    inside = Section(body, (), {function.__code__.co_varnames[0]: owner}, function.__globals__)
    for each in statements(body.node):
        returned = each.value if isinstance(each, ast.Return) else None
        held = memory_of(returned) if returned is not None else None
        if returned is None or held is None:
            continue
        made = values_of(body, held, each.lineno) if "." not in held else []
        held = (memory_of(made[0]) or held) if len(made) == 1 else held
        copied = rewritten(body, each, {returned: f"{body.text(returned)}.clone()"})
        yield Shared(body.place(each), held, inside.value(held), copied)
