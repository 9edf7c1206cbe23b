"""The failing call of torch.autograd.grad, so that it keeps its graph: several gradients of one forward pass."""

from __future__ import annotations

from collections.abc import Collection

from backsight.source.bindings import uses
from backsight.source.body import callee, calls_in, keyword
from backsight.source.rewriting import rewritten
from backsight.story.failure import Level


def keeping_graph(level: Level, assigned: Collection[str] = ()) -> str:
    """Return the statement of a level with `retain_graph=True` in its one call of `grad`; empty if it has none, or one
    that says already what becomes of the graph, or if it asks for what is `assigned` anew."""
    body, statement = level.body, level.statement
    calls = [each for each in calls_in(statement) if callee(each)[1] == "grad"] if statement is not None else []
    if body is None or statement is None or len(calls) != 1 or len(calls[0].args) > 3:
        return ""
    asked = {use.name for each in calls[0].args[1:2] for use in uses(each)}
    if keyword(calls[0], "retain_graph", "create_graph") is not None or asked & {*assigned}:
        return ""
    text = body.text(calls[0])
    return (
        rewritten(body, statement, {calls[0]: f"{text[:-1].rstrip(', ')}, retain_graph=True)"})
        if "…" not in text
        else ""
    )
