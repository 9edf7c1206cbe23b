"""Values alone that are written into the leaves of a loss: what they were computed from gets no gradient."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from backsight.diagnosis.evidence.idle import Reason, parameter_at, trainable
from backsight.diagnosis.evidence.turns import covers
from backsight.diagnosis.wording import shown
from backsight.source import Body, Place
from backsight.source.bindings import assigned, names_read, prefixes, reads, uses
from backsight.source.body import callee, calls_in, dotted, is_compound, statements
from backsight.source.changes import changed_memory
from backsight.source.edits import on_line, on_line_with, sentence
from backsight.story.behind import comes_of
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure
from backsight.story.fixes import removed
from backsight.story.memory import is_module, is_tensor, maker_of, needs_gradient, storage_of
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
        return _cut_up(failure, leaves, wanted)
    shows = (
        shown(each.place, f"gives {each.text} the values of {each.source}, detached from its graph.")
        for each in found[:3]
    )
    return Reason(tuple(shows), found[0].place, _fix(found), held=all(map(_has_run, found)))


def _cut_up(failure: Failure, leaves: Sequence[torch.Tensor], wanted: torch.Tensor) -> Reason | None:
    """Why leaves are pieces of what is computed from `wanted`: `setattr(module, name, nn.Parameter(piece))`."""
    for level in failure.users:
        for name, whole in level.variables.items():
            if not is_tensor(whole) or maker_of(whole) is None or id(wanted) not in leaves_of(whole):
                continue
            held = [each for each in leaves if storage_of(each) is not None and storage_of(each) == storage_of(whole)]
            section = section_of(level)
            if not held or section is None:
                continue
            before = (each for each in statements(section.body.node) if each.lineno < level.line)
            reading = [each for each in before if isinstance(each, ast.Expr) and reads(each, name)]
            inside = {each: list(_wrapping(failure, section, each, wanted)) for each in reading}
            giving = [each for each in reading if inside[each]] or [e for e in reading if _names_module(section, e)]
            places = [p for each in giving for p in inside[each] or [section.body.place(each)]]
            if places:
                lines = (
                    shown(each, f"makes leaves of the values of {name}, detached from its graph.") for each in places
                )
                fix = _in_pieces(section, giving[0], name, whole, held) if len(giving) == 1 else ""
                return Reason(tuple(lines), places[0], fix or _GENERAL, held=True)
    return None


def _names_module(section: Section, statement: ast.stmt) -> bool:
    return any(is_module(section.value(part)) for use in uses(statement) for part in prefixes(use.name))


def _wrapping(failure: Failure, section: Section, giving: ast.stmt, wanted: torch.Tensor) -> Iterator[Place]:
    """The statements of a function that is called, which make a parameter of what is computed from `wanted`."""
    for called in (each for call in calls_in(giving) for each in called_by(section, call, [section.body.node])):
        for statement in statements(called.body.node):
            for call in calls_in(statement) if not is_compound(statement) else ():
                read = [(called.body.text(each), call.lineno) for each in call.args[:1]]
                if callee(call)[1] == "Parameter" and comes_of(failure, called, read, [wanted]):
                    yield called.body.place(statement)


def _in_pieces(section: Section, giving: ast.stmt, name: str, whole: torch.Tensor, held: Sequence[torch.Tensor]) -> str:
    """Call the module with the pieces themselves, if its parameters are those, one after the other."""
    wanted, body = {id(each) for each in held}, section.body
    inside = list(statements(body.node))
    for statement, call, module in _called_below(section, giving.lineno):
        at = whole.storage_offset()
        if not wanted <= {id(each) for each in module.parameters()}:
            continue
        for each in module.parameters():
            if id(each) not in wanted or each.storage_offset() != at or not each.is_contiguous():
                break
            at += each.numel()
        else:
            model, flat = body.text(call.func), name if whole.dim() == 1 else f"{name}.flatten()"
            sizes = f"{flat}.split([p.numel() for p in {model}.parameters()])"
            values = f"{{n: parts[n].view_as(p) for n, p in {model}.named_parameters()}}"
            new = f"torch.func.functional_call({model}, {values}, {_inputs(body, call)})"
            first = f"parts = dict(zip(dict({model}.named_parameters()), {sizes}))"
            if (line := on_line_with(body, statement, {call: new})) and not any(reads(s, "parts") for s in inside):
                return f"{sentence(on_line(body.place(giving), first))}, and {line}."
    return ""


def _inputs(body: Body, call: ast.Call) -> str:
    return f"({body.text(call.args[0])},)" if len(call.args) == 1 else f"({', '.join(map(body.text, call.args))})"


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
        for target in targets if not is_compound(statement) else ():
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
    for name in names_read(statement):
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
    section, line = writes[-1].section, writes[-1].statement.lineno
    for statement, call, module in _called_below(section, line):
        text, held = section.body.text, {id(parameter_at(module, path)): path for path in trainable(module)}
        if all(each.value and each.section is section and id(each.leaf) in held for each in writes):
            given = ", ".join(f'"{held[id(each.leaf)]}": {each.value}' for each in writes)
            new = f"torch.func.functional_call({text(call.func)}, {{{given}}}, {_inputs(section.body, call)})"
            if written := on_line_with(section.body, statement, {call: new}):
                return f"{sentence(written)}, and {removed(*(each.place for each in writes))}."
    return _GENERAL


_GENERAL = (
    "Compute with the tensor itself, which has a graph: torch.func.functional_call(model, {name: tensor}, (x,)) "
    "runs a model with other weights than its own."
)


def _called_below(section: Section, line: int) -> Iterator[tuple[ast.stmt, ast.Call, torch.nn.Module]]:
    """The calls of a module below a line."""
    for statement in statements(section.body.node):
        for call in calls_in(statement) if statement.lineno > line else ():
            module = value_of(section, call.func)
            plain = not call.keywords and not any(isinstance(each, ast.Starred) for each in call.args)
            if isinstance(module, torch.nn.Module) and plain:
                yield statement, call, module
