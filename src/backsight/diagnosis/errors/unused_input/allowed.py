"""The gradients of parameters of which some take no part: unused ones are allowed, and skipped where they are read."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator

import torch

from backsight.diagnosis.errors.gradient_call import GradientCall, gradient_calls
from backsight.diagnosis.errors.unused_input.case import Unused
from backsight.source import Body, statement_at
from backsight.source.bindings import bound
from backsight.source.body import callee, calls_in, dotted, expressions, keyword, statements
from backsight.source.edits import OR, on_line
from backsight.source.rewriting import rewritten
from backsight.story.evaluated import value_of
from backsight.story.sections import called_by, section_of
from backsight.tape import tensors_in
from backsight.text import listed


def allowed(case: Unused) -> str:
    """What to pass where the gradients of parameters are asked for, and what to write where they are read."""
    if len(case.names) >= len(case.failure.inputs) or not all(isinstance(t, torch.nn.Parameter) for t in case.tensors):
        return ""
    body, asks = (case.body, statement_at(case.body, *case.at.position) if case.at else None)
    here = list(_asking(body, asks)) if body and asks else []
    made = set[str]().union(*(bound(each.statement) for each in here))
    read = _read(body, here[0].statement, made) if body and here else _SKIPPED
    option = "allow_unused=True" if read else "materialize_grads=True"
    every = [*here, *(_inside_of(case, body, asks) if body and asks else ())]
    lines = {each.place: _passing(each, option) for each in every}
    written = [on_line(place, text) for place, text in lines.items() if text]
    where = f" on line {case.at.line}" if case.at else ""
    where = f": {listed(written)}" if lines and all(lines.values()) else where
    them = "it" if len(case.names) == 1 else "them"
    returns = (
        f"None for an unused input, and {read}" if read else "zeros for an unused input, so that each has its place"
    )
    return (
        f"Pass {option}{where}, which returns {returns}. {OR}Or leave {them} out of the inputs; "
        f"if {case.output} should depend on {them}, compute it from {them}."
    )


_SKIPPED = "skip each None: `if g is not None`"


def _asking(body: Body, asks: ast.stmt) -> Iterator[GradientCall]:
    """The failing call, and the first of each statement below that asks for the same: the next errors."""
    inputs = next((_inputs(each) for each in gradient_calls(body, asks)), "")
    for each in (each for each in statements(body.node) if each.lineno >= asks.lineno):
        yield from itertools.islice((call for call in gradient_calls(body, each) if inputs == _inputs(call) != ""), 1)


def _inside_of(case: Unused, body: Body, asks: ast.stmt) -> Iterator[GradientCall]:
    """The calls that ask for gradients of the same inputs in the functions that the lines below call."""
    here, wanted = (section_of(case.failure.user) if case.failure.user else None, {id(each) for each in case.tensors})
    if here is None:
        return
    below = (each for each in statements(body.node) if each.lineno > asks.lineno)
    called = (inner for each in below for call in calls_in(each) for inner in called_by(here, call, ()))
    for inner in (each for each in called if each.body.file == body.file):
        for each in statements(inner.body.node):
            found = {text: call for call in gradient_calls(inner.body, each) if (text := _inputs(call))}
            given = [value_of(here, inner.given[t]) if t in inner.given else inner.value(t) for t in found]
            if given and wanted <= {id(tensor) for tensor in tensors_in(given)}:
                yield next(iter(found.values()))


def _inputs(call: GradientCall) -> str:
    """What a call asks for the gradients of, if it does not say whether it may be unused."""
    asked = call.inputs if keyword(call.node, "allow_unused") is None else None
    return call.body.text(asked) if asked is not None else ""


def _passing(call: GradientCall, option: str) -> str:
    last = [*call.node.args, *(each.value for each in call.node.keywords)][-1]
    text = call.body.text(last)
    return call.rewritten({last: f"{text}, {option}"}) if "…" not in text else ""


def _read(body: Body, asks: ast.stmt, made: set[str]) -> str:
    """What to write where a comprehension goes through the gradients; empty where each must keep its place in what that
    makes.

    One that updates each input by its gradient keeps those without, `[w - lr * g for w, g in zip(fast, grads)]`; of
    a sum they are left out.
    """
    for statement in (each for each in statements(body.node) if each.lineno > asks.lineno):
        summed = {id(each) for call in calls_in(statement) if dotted(call.func) in _SUMS for each in call.args}
        for node in expressions(statement):
            if not isinstance(node, ast.ListComp | ast.DictComp | ast.GeneratorExp) or len(node.generators) != 1:
                continue
            (of,) = node.generators
            entry = node.value if isinstance(node, ast.DictComp) else node.elt
            pairs = _gone_through(of)
            grads = [target for target, given in pairs if given in made]
            weights = [target for target, given in pairs if given not in made]
            if len(grads) == len(weights) == 1 and not isinstance(node, ast.GeneratorExp):
                chosen = f"{weights[0]} if {grads[0]} is None else {ast.unparse(entry)}"
                line = rewritten(body, statement, {entry: chosen})
                return f"keep those without a gradient: {on_line(body.place(statement), line)}" if line else ""
            if grads and not weights:
                some = " and ".join(f"{each} is not None" for each in grads)
                line = rewritten(body, statement, {of.iter: f"{body.text(of.iter)} if {some}"})
                line = line if id(node) in summed else ""
                return f"skip each None: {on_line(body.place(statement), line)}" if line else ""
    return _SKIPPED


_SUMS = ("sum", "any", "all", "max", "min")
"""The functions whose result has no places."""


def _gone_through(of: ast.comprehension) -> list[tuple[str, str]]:
    """The names that a comprehension gives to what it goes through, `zip(...)` of several too, with what that is."""
    match of:
        case ast.comprehension(target=ast.Name(id=name), iter=ast.Name(id=given), ifs=[]):
            return [(name, given)]
        case ast.comprehension(target=ast.Tuple(elts=elts), iter=ast.Call(args=args) as call, ifs=[]) if callee(call)[
            1
        ] == "zip" and len(elts) == len(args):
            last = (each.elts[-1] if isinstance(each, ast.Tuple) else each for each in elts)
            names = [(dotted(one) or "", dotted(other) or "") for one, other in zip(last, args, strict=True)]
            return names if all(name for name, _ in names) else []
    return []
