"""What a loop carries that a step of the program's own updates, `w = w - rate(g)`: where to cut it so that all of it
trains on."""

from __future__ import annotations

import ast

from backsight.source import LoopFacts, read_at, statement_at
from backsight.source.body import calls_in, covers, dotted, expressions, keyword, statements
from backsight.source.imports import is_gradient_call
from backsight.source.rewriting import rewritten
from backsight.story.carrier import Carrier
from backsight.story.failure import Level
from backsight.story.fixes import on_lines
from backsight.story.histories import value_under, without_history
from backsight.story.holders import made_in, results_in
from backsight.story.memory import is_tensor
from backsight.story.one_backward import trained_through
from backsight.text import listed


def updated_from_values(found: Carrier) -> str:
    """To cut what is updated and not the update: the loss of the next iteration trains what that is computed with, as
    learned step sizes are, through it alone. Empty where nothing is."""
    level, facts = found.level, found.facts
    nodes = [i for each in found.names for i in made_in(found.case.graph, value_under(found, each))]
    places = {each: facts.carried[each][1] for each in found.names if facts is not None and each in facts.carried}
    lost = trained_through(found, nodes) if len(places) == len(found.names) else []
    if not lost or level.body is None:
        return ""
    lines: dict[int, str] = {}
    for name, place in places.items():
        body, statement = read_at(place)
        every = [each for each in expressions(statement) if isinstance(each, ast.Name | ast.Attribute)]
        read = {each: dotted(each) or "" for each in every if isinstance(each.ctx, ast.Load)}
        with_graph = {each: text for each, text in read.items() if results_in(level.value(text))}
        cuts = {each: without_history(text, level.value(text)) for each, text in with_graph.items()}
        if place.position < level.place.position or name not in with_graph.values() or not all(cuts.values()):
            return ""
        assert body is not None and statement is not None
        lines[place.line] = rewritten(body, statement, {each: cut for each, cut in cuts.items() if cut})
    if not all(lines.values()):
        return ""
    them = "them" if len(found.names) > 1 else found.name
    return (
        f"Cut the old {listed(found.names)}, and keep the update: {on_lines(lines, level.body.file)}. "
        f"{listed(lost, 3)} {'get' if len(lost) > 1 else 'gets'} a gradient only through that update: with {them} "
        "detached after it, nothing would train "
        f"{'them' if len(lost) > 1 else 'it'}."
    )


def asked_for(level: Level, facts: LoopFacts | None) -> set[str]:
    """The tensors of which each iteration of a loop takes a gradient itself: they must be given one to take."""
    loop = statement_at(level.body, *facts.loop.position) if facts is not None else None
    inside = [each for each in statements(level.body) if loop is not None and covers(loop, each.lineno)]
    calls = [call for each in inside for call in calls_in(each) if is_gradient_call(call)]
    inputs = [call.args[1] if len(call.args) > 1 else keyword(call, "inputs") for call in calls]
    named = [node for each in inputs if each is not None for node in ast.walk(each)]
    read = [node for each in inside for node in expressions(each) if isinstance(node, ast.Attribute)]
    named += [node.value for node in read if node.attr == "grad"]
    return {name for node in named if (name := dotted(node)) and is_tensor(level.value(name))}
