"""Values alone that are written into the leaves of a loss: what they were computed from gets no gradient."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from backsight.diagnosis.evidence.idle import Reason, parameter_at, trainable
from backsight.diagnosis.evidence.turns import covers
from backsight.diagnosis.wording import shown
from backsight.source import Place
from backsight.source.bindings import assigned, uses
from backsight.source.body import blocks, callee, calls_in, dotted, statements
from backsight.source.changes import changed_memory
from backsight.source.rewriting import rewritten
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure
from backsight.story.fixes import removed
from backsight.story.memory import is_module, is_tensor, needs_gradient
from backsight.story.routes import leaves_of
from backsight.story.sections import Section, called_by, section_of
from backsight.tape import parameters_in, tensors_in


class _Write(NamedTuple):
    """A statement that gives a leaf the values of `source`; `value` is all that it writes, if it shows."""

    section: Section
    statement: ast.stmt
    leaf: torch.Tensor
    text: str
    source: str
    value: str

    @property
    def place(self) -> Place:
        return self.section.body.place(self.statement)


def values_alone(failure: Failure, leaves: Sequence[torch.Tensor], wanted: torch.Tensor) -> Reason | None:
    """Return the statements that write what is computed from `wanted` into one of the leaves, as `weight.data = value`
    does: a leaf takes the values, and starts a graph of its own."""
    every = (each for section in _running(failure) for each in _writes(section, leaves, wanted))
    found = list({each.place: each for each in every}.values())
    if not found:
        return None
    shows = (
        shown(each.place, f"gives {each.text} the values of {each.source}, detached from its graph.")
        for each in found[:3]
    )
    return Reason(tuple(shows), found[0].place, _fix(found), held=all(map(_has_run, found)))


def _running(failure: Failure) -> Iterator[Section]:
    """The functions of the traceback, and those that they call."""
    running = [section for level in failure.users if (section := section_of(level)) is not None]
    nodes = [each.body.node for each in running]
    for section in running:
        yield section
        for call in (each for statement in statements(section.body.node) for each in calls_in(statement)):
            yield from called_by(section, call, nodes)


def _writes(section: Section, leaves: Sequence[torch.Tensor], wanted: torch.Tensor) -> Iterator[_Write]:
    for statement in statements(section.body.node):
        if section.level is not None and statement.lineno > section.level.line:
            continue
        targets = [*changed_memory(statement), *(target for target, _ in assigned(statement))]
        for target in targets if not any(True for _ in blocks(statement)) else ():
            held = value_of(section, target)
            leaf = next((each for each in leaves if each is held), None)
            source = _source(section, statement, wanted) if leaf is not None else ""
            if leaf is not None and source:
                text = section.body.text(target)
                yield _Write(section, statement, leaf, text, source, _value(section, statement))
                break


def _has_run(write: _Write) -> bool:
    """Whether no condition decides on a statement, or on the calls that led to it."""
    section: Section | None = write.section
    line = write.statement.lineno
    while section is not None:
        now = section.level.line if section.level is not None else 0
        around = (each for each in statements(section.body.node) if isinstance(each, ast.If | ast.Try))
        if any(covers(each, line) and not covers(each, now) for each in around):
            return False
        line = section.call.lineno if section.call is not None else 0
        section = section.caller
    return True


def _source(section: Section, statement: ast.stmt, wanted: torch.Tensor) -> str:
    """What a statement reads that is computed from a leaf: a tensor, tensors or a module that computes with it."""
    for name in (use.name for use in uses(statement) if not use.binds):
        value = section.value(name)
        given = section.given.get(name) if value is None else None
        if given is not None and section.caller is not None:
            if found := _source(section.caller, ast.Expr(given), wanted):
                return found
        elif is_module(value):
            called = any(dotted(call.func) == name for call in calls_in(statement))
            if called and any(each is wanted for each in parameters_in(value)):
                return f"what {name} returns"
        elif any(
            is_tensor(each) and needs_gradient(each) and id(wanted) in leaves_of(each) for each in tensors_in(value)
        ):
            return name
    return ""


def _value(section: Section, statement: ast.stmt) -> str:
    """What a statement writes: `new` of `p.data = new`, `p.copy_(new)`, `layer.weight = nn.Parameter(new)`."""
    match statement:
        case ast.Assign(targets=[ast.Attribute()], value=ast.Call(args=[value, *_]) as call) if (
            callee(call)[1] == "Parameter"
        ):
            return section.body.text(value)
        case ast.Assign(targets=[ast.Attribute()], value=value):
            return section.body.text(value)
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="copy_"), args=[value])):
            return section.body.text(value)
    return ""


def _fix(writes: Sequence[_Write]) -> str:
    """Call the module with what is computed, instead of what it was written into."""
    for section, statement, call, module in _calls(writes):
        text, held = section.body.text, {id(parameter_at(module, path)): path for path in trainable(module)}
        if all(each.value and each.section is section and id(each.leaf) in held for each in writes):
            given = ", ".join(f'"{held[id(each.leaf)]}": {each.value}' for each in writes)
            inputs = f"({text(call.args[0])},)" if len(call.args) == 1 else f"({', '.join(map(text, call.args))})"
            new = f"torch.func.functional_call({text(call.func)}, {{{given}}}, {inputs})"
            if line := rewritten(section.body, statement, {call: new}):
                return f"On line {statement.lineno}, write `{line}`, and {removed(*(each.place for each in writes))}."
    return (
        "Compute with the tensor itself, which has a graph: torch.func.functional_call(model, {name: tensor}, (x,)) "
        "runs a model with other weights than its own."
    )


def _calls(writes: Sequence[_Write]) -> Iterator[tuple[Section, ast.stmt, ast.Call, torch.nn.Module]]:
    """The calls of a module that has the leaves, below the statements that write into them."""
    section = writes[-1].section
    for statement in statements(section.body.node):
        for call in calls_in(statement) if statement.lineno > writes[-1].statement.lineno else ():
            module = value_of(section, call.func)
            plain = not call.keywords and not any(isinstance(each, ast.Starred) for each in call.args)
            if isinstance(module, torch.nn.Module) and plain:
                yield section, statement, call, module
