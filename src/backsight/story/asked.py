"""A gradient whose graph is up to the caller: `create_graph=keep` in a function that is given `keep`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from backsight.source import Place, statement_at
from backsight.source.body import dotted, is_constant, keyword
from backsight.source.rewriting import rewritten
from backsight.story.cuts import CutOff, node_of
from backsight.story.sections import function_called, passed


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


def asked(suspect: CutOff) -> Asked | None:
    """Return the first call that left out the graph of a gradient, where a parameter of its function decides on it."""
    return next(every_call(suspect), None)


def every_call(suspect: CutOff) -> Iterator[Asked]:
    """Yield all such calls on the way to the failing tensor: a difference of gradients makes two of one function."""
    section, node = suspect.section, node_of(suspect.section, suspect.cut)
    if suspect.cut.kind != "gradient" or section.caller is None or not isinstance(node, ast.Call):
        return
    name = dotted(keyword(node, "create_graph"))
    caller = section.caller
    for call, place in caller.calls() if name is not None else ():
        function, owner = function_called(caller, call)
        statement = statement_at(caller.body, *place.position)
        is_later = caller.level is not None and place.line >= caller.level.line
        if is_later or statement is None or getattr(function, "__code__", None) is None:
            continue
        code = function.__code__
        if (code.co_filename, code.co_name) != (section.body.file, section.body.name):
            continue
        given = passed(function, owner, call).get(name or "")
        parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        defaults = dict(zip(parameters[: code.co_argcount][::-1], (function.__defaults__ or ())[::-1], strict=False))
        default = {**defaults, **(function.__kwdefaults__ or {})}.get(name)
        if name not in parameters or is_constant(given, True) or (given is None and default is not False):
            continue
        text, wanted = caller.body.text(call), f"{name}=True"
        does = f"passes {caller.body.text(given)} as {name}" if given else f"leaves {name} at its default, False"
        change: dict[ast.expr, str] = {given: "True"} if given else {call: _with(text, wanted)}
        mended = rewritten(caller.body, statement, change) if "…" not in text else ""
        yield Asked(place, text, does, mended, wanted)


def _with(call: str, argument: str) -> str:
    """A call with one more argument."""
    inside = call[:-1].rstrip(", ")
    return f"{inside}{'' if inside.endswith('(') else ', '}{argument})"
