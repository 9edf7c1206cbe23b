"""The gradient is asked for with respect to weights, and the output is computed from copies of them."""

from __future__ import annotations

from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.errors.unused_input.case import Unused, is_in
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import listed, shown
from backsight.source import Place, assignments, loop_facts
from backsight.source.body import calls_in, keyword
from backsight.source.imports import is_gradient_call
from backsight.source.rewriting import rewritten
from backsight.story.failure import Level
from backsight.story.memory import is_tensor, shape_of


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
    line, names = _asking_for(level, every), listed(case.names, 2)
    return explanation(
        f"{case.output} does not depend on {names}: it is computed from the tensors in {name} instead.",
        (
            *([shown(made, f"puts new tensors into {name}, which have no graph.")] if made else ()),
            shown(case.ancestors[name].read, f"computes with {name}."),
            case.asked,
        ),
        (f"On line {level.line}, write `{line}`" if line else f"Ask for the gradients of {every}")
        + ". allow_unused=True would return None for every input.",
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


def _asking_for(level: Level, every: str) -> str:
    """The statement that asks for the gradient, of other inputs."""
    call = next((each for each in calls_in(level.statement) if is_gradient_call(each)), None)
    asked = (call.args[1] if len(call.args) > 1 else keyword(call, "inputs")) if call else None
    if level.body is None or level.statement is None or asked is None:
        return ""
    return rewritten(level.body, level.statement, {asked: every})
