"""A call on the way to the output leaves the input out: a function ignores its argument, or another model is called."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.errors.unused_input.case import Unused, computed
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import listed, shown
from backsight.source import Place, statement_at
from backsight.source.ancestry import ancestors
from backsight.source.bindings import uses
from backsight.source.body import calls_in, dotted, expressions, statements
from backsight.source.edits import on_line
from backsight.source.rewriting import rewritten
from backsight.story.memory import is_module, is_tensor, shape_of
from backsight.story.sections import Section, called_by, section_of
from backsight.tape import parameters_in
from backsight.text import begun


def ignored(case: Unused) -> Finding | None:
    """A function is given what is computed from the input, and none of its statements reads that parameter."""
    here, variables = (_section(case), case.failure.user.variables if case.failure.user else {})
    name = next((name for name, value in variables.items() if value is case.tensors[0]), "")
    found = next(_ignoring(here, name), None) if here is not None and name and len(case.tensors) == 1 else None
    if found is None:
        return None
    section, place, inner, parameter = found
    value, called = inner.given[parameter], inner.body.name
    behind = {name for use in uses(ast.Expr(value)) for name in ancestors(section.body, use.name, place.line)}
    given = [each for each in map(section.value, behind) if is_tensor(each)]
    shape = shape_of(section.value(dotted(value) or "")) or shape_of(case.tensors[0])
    where, fix = _using(inner, parameter, given, shape)
    return explanation(
        f"{case.output} does not depend on {case.name}: {called}() ignores its argument {parameter}.",
        (
            shown(place, f"passes it {section.body.text(value)}."),
            shown(where, f"computes the result without {parameter}."),
            case.asked,
        ),
        fix,
        source=where,
    )


def _ignoring(here: Section, name: str) -> Iterator[tuple[Section, Place, Section, str]]:
    """The functions on the way that are given what is computed from a name, and never read that parameter: who calls
    each, and where."""
    queue = [(here, name)]
    for section, held in queue:  # grows as we go
        for call, place in section.calls():
            for inner in called_by(section, call, ()):
                read = {each.id for each in ast.walk(inner.body.node) if isinstance(each, ast.Name)}
                for parameter, value in inner.given.items():
                    names = {use.name for use in uses(ast.Expr(value))}
                    if not any(held in (each, *ancestors(section.body, each, place.line)) for each in names):
                        continue
                    if parameter not in read:
                        yield section, place, inner, parameter
                    elif (inner.body.node, parameter) not in {(each.body.node, known) for each, known in queue}:
                        queue.append((inner, parameter))


def another_model(case: Unused) -> Finding | None:
    """The gradient is asked for with respect to the parameters of one model, and another one of its kind is called."""
    here, wanted = _section(case), {id(each) for each in case.tensors}
    if here is None or here.level is None or len(case.tensors) < len(case.failure.inputs):
        return None
    every = [(name, value) for name, value in here.level.variables.items() if is_module(value)]
    model, name = next(((value, name) for name, value in every if wanted <= _ids(value)), (None, ""))
    for call, place in here.calls() if model is not None else ():
        other = here.value(dotted(call.func) or "")
        statement = statement_at(here.body, *place.position)
        if not is_module(other) or other is model or _shapes(other) != _shapes(model) or statement is None:
            continue
        called, line = (dotted(call.func), rewritten(here.body, statement, {call.func: name}))
        return explanation(
            f"{case.output} does not depend on the parameters of {name}: {called} computes it.",
            (shown(place, f"calls {called}, which has parameters of its own."), *computed(case), case.asked),
            f"{begun(on_line(place, line))}." if line else f"Call {name} instead of {called}.",
            source=place,
        )
    return None


def _section(case: Unused) -> Section | None:
    level = case.failure.user
    return section_of(level, ((level.receiver, level.line),)) if level is not None and level.receiver else None


def _using(
    inner: Section, parameter: str, given: Sequence[torch.Tensor], shape: tuple[int, ...] | None
) -> tuple[Place, str]:
    """The statement that reads a tensor from outside of the function instead of the parameter, and what to write there.

    The tensor is one that the parameter was computed from, else the only one of its shape.
    """
    every = [each for line in sorted(inner.lines()) if (each := statement_at(inner.body, line)) is not None]
    outer = [(each, node, value) for each in every for node, value in _from_outside(inner, each)]
    same = [found for found in outer if any(found[2] is one for one in given) and shape_of(found[2]) == shape]
    alike = [found for found in outer if shape_of(found[2]) == shape]
    meant = same or (alike if len({id(value) for _, _, value in alike}) == 1 else [])
    lines = {each: [node for at, node, _ in meant if at is each] for each, _, _ in meant}
    edits = [
        (each, line)
        for each, nodes in lines.items()
        if (line := rewritten(inner.body, each, dict.fromkeys(nodes, parameter)))
    ]
    if edits and len(edits) == len(lines):
        written = listed([on_line(inner.body.place(each), line) for each, line in edits])
        return inner.body.place(edits[0][0]), f"{begun(written)}."
    for each, call in [(one, call) for one in every for call in calls_in(one)]:
        for model in called_by(inner, call, ()):
            new = _past_embedding(inner, model, call, parameter)
            if new and (line := rewritten(inner.body, each, {call: new})):
                return (at := inner.body.place(each)), f"{begun(on_line(at, line))}."
    calling = next((each for each in every if any(calls_in(each))), every[0] if every else inner.body.node.body[0])
    return inner.body.place(calling), f"Use {parameter} in {inner.body.name}()."


def _from_outside(section: Section, statement: ast.stmt) -> Iterator[tuple[ast.expr, torch.Tensor]]:
    """The tensors, but no weights, that a statement reads by names that are not the function's own."""
    for node in expressions(statement):
        read = isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
        value = section.value(dotted(node) or "") if read else None
        if is_tensor(value) and not isinstance(value, torch.nn.Parameter):
            yield node, value


def _past_embedding(inner: Section, model: Section, call: ast.Call, parameter: str) -> str:
    """`model.encode(embed)` for `model(ids)`, whose forward is `return self.encode(self.embeddings(ids))`."""
    match [each.value for each in statements(model.body.node) if isinstance(each, ast.Return)]:
        case [ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=rest), args=[ast.Call() as first])]:
            embeds = isinstance(model.value(dotted(first.func) or ""), torch.nn.Embedding)
            path = dotted(call.func) if is_module(inner.value(dotted(call.func) or "")) else None
            return f"{path}.{rest}({parameter})" if embeds and path else ""
    return ""


def _ids(model: Any) -> set[int]:
    return {id(each) for each in parameters_in(model)}


def _shapes(model: Any) -> list[object]:
    return [shape_of(each) for each in parameters_in(model)]
