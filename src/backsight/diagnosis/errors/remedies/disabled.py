"""Remedies for a gradient that is asked for of what was computed with gradients disabled."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

import torch

from backsight.diagnosis.errors.remedies.remedy import Match, Remedy, remedy
from backsight.diagnosis.evidence.refused import Refusal
from backsight.diagnosis.wording import shown
from backsight.findings.evidence import Fact
from backsight.source import Body, Place, cuts
from backsight.source.body import callee, calls_in, statements
from backsight.source.imports import is_gradient_call
from backsight.story.cuts import seen
from backsight.story.evaluated import value_of
from backsight.story.failure import Level
from backsight.story.modes import is_sure, nearest_at
from backsight.story.sections import Section, function_called, run_by, section_of, sections_of


class Block(NamedTuple):
    """What disabled gradients: its place, its function, the lines inside it; `running`: the level that still runs
    inside it, None where what it computed was handed out; `sure`: whether that is known, not read."""

    place: Place
    body: Body
    lines: range
    section: Section
    running: Level | None
    sure: bool = True


@remedy(r"doesn't require gradient|retain_grad on Tensor that has requires_grad=False")
def _of_disabled(found: Refusal, match: Match) -> Remedy | None:
    """A hook, or retain_grad(), on a result that was computed under torch.no_grad()."""
    receiver, body, statement = found.receiver, found.level.body, found.level.statement
    if receiver is None or body is None or statement is None:
        return None
    name = body.text(receiver)
    tensor = value_of(found.level, receiver)
    seen_in = _seen(tensor) if isinstance(tensor, torch.Tensor) else iter(())
    block = next(_around(found), None) or next(seen_in, None) or next(_behind(found, name), None)
    if block is None:
        return None
    evidence: list[Fact] = [
        shown(block.place, "disables gradients for everything inside it.", None if block.sure else "read")
    ]
    if block.running is not None and block.running is not found.level:
        evidence.append(shown(block.running.place, "runs inside it."))
    plain = isinstance(statement, ast.Expr) and statement.lineno == statement.end_lineno
    asks = f"`if {name}.requires_grad: {body.text(statement)}`" if plain else f"`if {name}.requires_grad:`"
    place: Place | None = block.place
    if block.running is None:
        leaf = f"For the gradient of {name} alone: write `{name}.requires_grad_()` above line {statement.lineno}. "
        leaf = leaf if "inference" not in block.place.text else ""
        fix = f"{leaf}To train what it is computed from as well: {_removed(block)}."
    elif _runs_backward(block):
        removed = _removed(block)
        fix = f"{removed[0].upper()}{removed[1:]}: backward runs there, and needs the graph of {name}."
    else:
        place = None
        fix = (
            f"Ask only where there is a gradient: on line {statement.lineno}, write {asks}. To get one here as well, "
            f"{_removed(block)}."
        )
    return Remedy(fix, tuple(evidence), place)


def _around(found: Refusal) -> Iterator[Block]:
    """The innermost block or decorator around what failed, if it disables gradients."""
    for level in found.failure.users:
        off = nearest_at(level.body, level.line) if level.body else None
        section = section_of(level)
        if off is False:
            return
        if off is not None and level.body is not None and section is not None and is_sure(level, off):
            yield Block(off.place, level.body, _lines(level.body, off.place), section, level)
            return


def _seen(tensor: torch.Tensor) -> Iterator[Block]:
    """Blocks in which a watch has seen it computed."""
    for each in seen(tensor)[0]:
        body = each.section.body
        if each.cut.kind == "no_grad" and each.inside:
            yield Block(each.cut.place, body, _lines(body, each.cut.place), each.section, None)


def _behind(found: Refusal, name: str) -> Iterator[Block]:
    """Blocks in which the tensor was computed, in a function that has returned."""
    for section in sections_of([(found.level, ((name, found.level.line),))]):
        for goal, line in section.goals:
            for cut in cuts(section.body, goal, line):
                if cut.kind == "no_grad":
                    yield Block(cut.place, section.body, _lines(section.body, cut.place), section, None, sure=False)


def _lines(body: Body, place: Place) -> range:
    """The lines inside a block, or of the function on which a decorator stands."""
    block = next((s for s in statements(body.node) if s.lineno == place.line and isinstance(s, ast.With)), None)
    node = block or body.node
    first = getattr(node, "lineno", 1) if block is None else place.line + 1
    return range(first, (getattr(node, "end_lineno", None) or first) + 1)


def _runs_backward(block: Block) -> bool:
    """Whether something inside takes gradients: itself, or in a function that it calls."""
    for each in statements(block.body.node):
        for call in calls_in(each) if each.lineno in block.lines else ():
            function, owner = function_called(block.section, call)
            inner = run_by(function, owner) if getattr(function, "__code__", None) is not None else ()
            called = (c for one in inner for s in statements(one.body.node) for c in calls_in(s))
            if any(_is_backward(each) for each in (call, *called)):
                return True
    return False


def _is_backward(call: ast.Call) -> bool:
    return callee(call)[1] == "backward" or is_gradient_call(call)


def _removed(block: Block) -> str:
    """How gradients are enabled where a block disables them."""
    text, line = block.place.text, block.place.line
    if text.startswith("@"):
        return f"remove line {line}, `{text}`, from {block.body.name}()"
    if text.startswith("with ") and "," not in text and "set_grad_enabled" not in text:
        return f"remove line {line}, `{text}`, and dedent the lines inside it"
    return f"enable gradients on line {line}, `{text}`"
