"""A gradient whose graph is up to the caller: `create_graph=keep` in a function that is given `keep`."""

from __future__ import annotations

import ast
from typing import NamedTuple

from backsight.source import Place, statement_at
from backsight.source.body import dotted, is_constant, keyword
from backsight.source.rewriting import rewritten
from backsight.story.cuts import CutOff
from backsight.story.sections import function_called


class Asked(NamedTuple):
    """The call that asked for gradients without a graph.

    text: the call, as the program writes it.
    does: what it says of the graph: `leaves keep at its default, False`.
    mended: its statement, asking for a graph; empty where that is too long.
    wanted: what it must pass: `keep=True`.
    """

    place: Place
    text: str
    does: str
    mended: str
    wanted: str


def asked(cut: CutOff) -> Asked | None:
    """Return the call that left out the graph of a gradient, where a parameter of its function decides on it."""
    caller, call, node = cut.section.caller, cut.section.call, cut.node
    name = dotted(keyword(node, "create_graph")) if isinstance(node, ast.Call) else None
    if cut.cut.kind != "gradient" or caller is None or call is None or name is None:
        return None
    function, _ = function_called(caller, call)
    statement, code = statement_at(caller.body, call.lineno, call.col_offset), getattr(function, "__code__", None)
    if statement is None or code is None or name not in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        return None
    given = cut.section.given.get(name)
    defaults = dict(zip(code.co_varnames[: code.co_argcount][::-1], (function.__defaults__ or ())[::-1], strict=False))
    default = {**defaults, **(function.__kwdefaults__ or {})}.get(name)
    if is_constant(given, True) or (given is None and default is not False):
        return None
    text, wanted = caller.body.text(call), f"{name}=True"
    does = f"passes {caller.body.text(given)} as {name}" if given else f"leaves {name} at its default, False"
    change: dict[ast.expr, str] = {given: "True"} if given else {call: _with(text, wanted)}
    mended = rewritten(caller.body, statement, change) if "…" not in text else ""
    return Asked(caller.body.place(statement), text, does, mended, wanted)


def _with(call: str, argument: str) -> str:
    """A call with one more argument."""
    inside = call[:-1].rstrip(", ")
    return f"{inside}{'' if inside.endswith('(') else ', '}{argument})"
