"""The output is computed from something else in the place of the input: copies of weights, another model, a
function that ignores what it is given."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from backsight.diagnosis.errors.gradient_call import gradient_call
from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.errors.unused_input.case import Unused, computed, is_in
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import if_known, listed, shown
from backsight.source import Body, Place, assignments, calls_of, loop_facts, only, statement_at
from backsight.source.ancestry import ancestors
from backsight.source.bindings import bound, target_names, uses
from backsight.source.body import callee, calls_in, dotted, expressions, statements
from backsight.source.edits import on_line, sentence, without_marks
from backsight.source.rewriting import rewritten
from backsight.story.failure import Level
from backsight.story.files import user_files
from backsight.story.memory import is_module, is_tensor, shape_of
from backsight.story.sections import Section, called_by, section_of, sections
from backsight.tape import parameters_in, tensors_in


def of_copies(case: Unused) -> Finding | None:
    """A variable holds a leaf in the place of each input, in the same order: the output is computed from those."""
    level = case.failure.user
    if level is None or len(case.tensors) < max(2, len(case.failure.inputs)):
        return None
    found = [name for name in case.ancestors if _stand_for(case, level.value(name))]
    if len(found) != 1:
        return None
    name, made = found[0], _made(level, found[0])
    every = f"list({name}.values())" if type(level.value(name)) is dict else name
    call, names = gradient_call(level), listed(case.names, 2)
    line = call.of_inputs(every) if call is not None else ""
    how = on_line(level.place, line) if line else f"ask for the gradients of {every}"
    return explanation(
        f"{case.output} does not depend on {names}: it is computed from the tensors in {name} instead.",
        (
            if_known(made, f"puts new tensors into {name}, which have no graph."),
            shown(case.ancestors[name].read, f"computes with {name}."),
            case.asked,
        ),
        f"{sentence(how)}. allow_unused=True would return None for every input.",
        source=case.failure.source,
    )


def _stand_for(case: Unused, value: object) -> bool:
    """Whether a container has a leaf of this graph for each input, of its shape."""
    entries = list(value.values()) if type(value) is dict else value
    return (
        type(entries) in (list, tuple)
        and isinstance(entries, list | tuple)
        and all(is_tensor(each) and each.is_leaf and is_in(case.graph, each) for each in entries)
        and [shape_of(each) for each in entries] == [shape_of(each) for each in case.tensors]
    )


def _made(level: Level, name: str) -> Place | None:
    """The statement that made what a variable holds; None where there are several, and the text does not tell which."""
    facts = loop_facts(level.body, level.line)
    before = [each for each in assignments(level.body, name, before=level.line) if "parameters(" not in each.text]
    places = {*before[-1:], *([facts.carried[name][1]] if facts and name in facts.carried else [])}
    return places.pop() if len(places) == 1 else None


# A loop over the parameters of a model assigns its own variable, `p = fast`: the model keeps the weights it has.


def rebound_in_loop(case: Unused) -> Finding | None:
    """Name that assignment, and call the model with the tensors that were meant to be its weights."""
    for of, body, given, held, line in _holding(case):
        for loop in (each for each in statements(body.node) if isinstance(each, ast.For) and each.lineno <= line):
            model = _model_of(of, loop)
            wrong = next((each for each in loop.body if _rebinds(each, loop, given)), None)
            if model is None or wrong is None:
                continue
            weights = given if type(held) is dict else f"dict(zip(dict({model}.named_parameters()), {given}))"
            does = f"gives the variable {next(iter(bound(wrong)))} another tensor; {model} keeps its parameter."
            return explanation(
                f"{case.output} does not depend on {listed(case.names, 2)}: they never became the weights of {model}.",
                (shown(body.place(wrong), does), *computed(case), case.asked),
                f"Call {model} with these weights: {_called(body, model, weights, loop.lineno)}.",
                source=body.place(wrong),
            )
    return None


def _holding(case: Unused) -> Iterator[tuple[Level | Section, Body, str, object, int]]:
    """What the function that asks for the gradient calls the tensors that hold the input, and what those call them to
    which it gave them, each with the line up to which the function has run."""
    level, every = (case.failure.user, list[tuple[Level | Section, Body, str, object, int]]())
    if level is not None and level.body is not None:
        every.append((level, level.body, case.base, level.value(case.base), level.line))
        for each in sections(case.failure):
            every += ((each, each.body, name, _handed_down(each, name), sys.maxsize) for name in each.given)
    yield from (each for each in every if any(case.tensors[0] is one for one in tensors_in(each[3])))


def _handed_down(section: Section | None, name: str) -> object:
    """What a function that has returned was given by a name, as far out as a function that still runs holds it."""
    while section is not None and section.level is None:
        given, section = section.given.get(name), section.caller
        name = dotted(given) or ""
    return section.value(name) if section is not None else None


def _model_of(level: Level | Section, loop: ast.For) -> str | None:
    """The model whose parameters a loop goes through."""
    calls = [callee(each) for each in expressions(loop) if isinstance(each, ast.Call)]
    owners = [dotted(receiver) for receiver, name in calls if name in ("parameters", "named_parameters")]
    return next((owner for owner in owners if owner and is_module(level.value(owner))), None)


def _rebinds(statement: ast.stmt, loop: ast.For, given: str) -> bool:
    """Whether a statement assigns a variable of the loop what it takes from the tensors that are given."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name), *_], value=value) if name in (own := target_names(loop.target)):
            read = target_names(value)
            taken = {dotted(each) for each in ast.walk(loop.iter)}
            return given in read or (given in taken and bool(read & own))
    return False


def _called(body: Body, model: str, every: str, below: int) -> str:
    """The calls of the model below the loop, as they are written with other weights."""
    lines = dict[Place, tuple[str, str]]()
    for each in statements(body.node):
        calls = [call for call in calls_in(each) if dotted(call.func) == model and not call.keywords]
        if each.lineno < below or not calls:
            continue
        texts = {call: ", ".join(body.text(argument) for argument in call.args) for call in calls}
        new: dict[ast.expr, str] = {
            call: f"torch.func.functional_call({model}, {every}, ({text},))" for call, text in texts.items()
        }
        lines[body.place(each)] = rewritten(body, each, new), next(iter(new.values()))
    written = [on_line(place, text or call) for place, (text, call) in lines.items()]
    if not all(text for text, _ in lines.values()):
        written = [without_marks(each) for each in written]  # a call alone takes no statement's place
    return "; ".join(written) or f"torch.func.functional_call({model}, {every}, (x,))"


# A call on the way to the output leaves the input out: a function ignores its argument, or another model is called.


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
    """The functions that never read a parameter which is computed from a name: who calls each, and where."""
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


def of_a_deepcopy(case: Unused) -> Finding | None:
    """The output is computed with a deepcopy of the model, which has leaves of its own and was trained since."""
    level, call = case.failure.user, gradient_call(case.failure.user)
    asked = [shape_of(each) for each in case.failure.inputs]
    if level is None or len(case.tensors) < len(asked) or (made := _deepcopied(case)) is None:
        return None
    held = ((name, value) for name, value in level.variables.items() if is_module(value))
    of_graph = [(name, copy) for name, copy in held if any(is_in(case.graph, each) for each in parameters_in(copy))]
    name, copy = only(of_graph) or ("", None)
    if copy is None or _shapes(copy) != asked or any(not is_in(case.graph, each) for each in parameters_in(copy)):
        return None
    line = call.of_inputs(f"list({name}.parameters())") if call is not None else ""
    how = on_line(level.place, line) if line else f"ask for the gradients of list({name}.parameters())"
    return explanation(
        f"{case.output} does not depend on {listed(case.names, 2)}: it is computed with {name}, a deepcopy.",
        (shown(made, "copies the values into new leaves, without a graph.", "read"), *computed(case), case.asked),
        f"Take the gradients of {name}, which have the same order and shapes: {how}. Given to the parameters of the "
        "original, they are its gradients to first order. To differentiate through the training of the copy as well, "
        "make no deepcopy: compute its weights with create_graph=True, and call torch.func.functional_call with them. "
        "allow_unused=True would only return None.",
        source=level.place,
        exact=False,
    )


def _deepcopied(case: Unused) -> Place | None:
    """The one statement of the program that may have made a deepcopy of the module which has the inputs."""
    found = []
    for body, statement, call in calls_of(*user_files(case.failure)):
        if callee(call)[1] != "deepcopy" or len(call.args) != 1:
            continue
        held = [each.value(body.text(call.args[0])) for each in case.failure.users]
        modules = [each for each in held if is_module(each)]
        if not modules or any({id(each) for each in case.tensors} <= _ids(each) for each in modules):
            found.append(body.place(statement))
    return only(found)


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
            f"{sentence(on_line(place, line))}." if line else f"Call {name} instead of {called}.",
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
        return inner.body.place(edits[0][0]), f"{sentence(written)}."
    for each, call in [(one, call) for one in every for call in calls_in(one)]:
        for model in called_by(inner, call, ()):
            new = _past_embedding(inner, model, call, parameter)
            if new and (line := rewritten(inner.body, each, {call: new})):
                return (at := inner.body.place(each)), f"{sentence(on_line(at, line))}."
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
