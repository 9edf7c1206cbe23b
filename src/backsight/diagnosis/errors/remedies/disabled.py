"""Remedies for a gradient that is asked for of what was computed with gradients disabled."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import torch

from backsight.diagnosis.errors.remedies.remedy import Match, Remedy, remedy
from backsight.diagnosis.evidence.gradients import Held, made
from backsight.diagnosis.evidence.refused import Refusal
from backsight.diagnosis.wording import shown
from backsight.findings.evidence import Fact
from backsight.source.body import callee, calls_in
from backsight.source.edits import OR, on_line, put, remove, unwrap, wrap
from backsight.source.imports import is_gradient_call
from backsight.story.cuts import CutOff, around, cuts, seen, unrecorded
from backsight.story.evaluated import value_of
from backsight.story.sections import function_called, run_by, section_of
from backsight.story.trained import trained


@remedy(r"doesn't require gradient|retain_grad on Tensor that has requires_grad=False")
def _of_disabled(found: Refusal, match: Match) -> Remedy | None:
    """A hook, or retain_grad(), on a result that was computed under torch.no_grad(), or from constants."""
    receiver, body, statement = found.receiver, found.level.body, found.level.statement
    if receiver is None or body is None or statement is None:
        return None
    name = body.text(receiver)
    running = next(iter(around([(level, level.line) for level in found.failure.users])), None)
    block = running or next(_behind(found, name, value_of(found.level, receiver)), None)
    if block is None:
        return _of_constants(found, name)
    place = block.cut.place
    evidence: list[Fact] = [
        shown(place, "disables gradients for everything inside it.", None if running or block.seen else "read")
    ]
    level = running.section.level if running is not None else None
    if level is not None and level is not found.level:
        evidence.append(shown(level.place, "runs inside it."))
    plain = isinstance(statement, ast.Expr) and statement.lineno == statement.end_lineno
    condition, at = f"if {name}.requires_grad:", found.level.place
    asks = on_line(at, f"{condition} {body.text(statement)}") if plain else f"on line {at.line}, write `{condition}`"
    asks += str(wrap(at, condition)) if isinstance(statement, ast.Expr) and not plain else ""
    removed = _removed(block)
    if running is None:
        code = f"{name}.requires_grad_()"
        leaf = f"For the gradient of {name} alone: write `{code}` above line {at.line}{put(code, 'above', at)}. {OR}"
        leaf = leaf if "inference" not in place.text else ""
        return Remedy(f"{leaf}To train what it is computed from as well: {removed}.", tuple(evidence), place)
    if _runs_backward(block):
        fix = f"{removed[0].upper()}{removed[1:]}: backward runs there, and needs the graph of {name}."
        return Remedy(fix, tuple(evidence), place)
    only = f"Ask only where there is a gradient: {asks}."
    return Remedy(f"{only} {OR}To get one here as well, {removed}.", tuple(evidence), None)


def _of_constants(found: Refusal, name: str) -> Remedy | None:
    """The result can be a leaf itself, from where it is computed: what is computed from it since has no graph yet."""
    tensor = value_of(found.level, found.receiver)
    if not isinstance(tensor, torch.Tensor) or not tensor.is_floating_point():
        return None
    origin = made(Held(found.failure, found.level, name, tensor))
    if origin is None or origin.place == found.level.place:
        return None
    code = f"{name}.requires_grad_()"
    fix = (
        f"For the gradient of {name}: put `{code}` below line {origin.place.last}{put(code, 'below', origin.place)}, "
        "so that it is a leaf. To train what it is computed from too, make that require grad first."
    )
    return Remedy(fix, (), None)


def _behind(found: Refusal, name: str, tensor: object) -> Iterator[CutOff]:
    """Blocks in which the tensor was computed, in a function that has returned."""
    if isinstance(tensor, torch.Tensor):
        yield from (each for each in seen(tensor)[0] if each.cut.kind == "no_grad" and each.inside)
    start = section_of(found.level, ((name, found.level.line),))
    read = cuts(found.failure, trained(found.failure), starts=[start] if start is not None else ())
    yield from (each for each in read if each.cut.kind == "no_grad")


def _runs_backward(block: CutOff) -> bool:
    """Whether something inside takes gradients: itself, or in a function that it calls."""
    for call in (call for each in unrecorded(block.section, block.cut) for call in calls_in(each)):
        function, owner = function_called(block.section, call)
        inner = run_by(function, owner) if getattr(function, "__code__", None) is not None else ()
        called = (each for section in inner for each, _ in section.calls())
        if any(callee(each)[1] == "backward" or is_gradient_call(each) for each in (call, *called)):
            return True
    return False


def _removed(block: CutOff) -> str:
    """How gradients are enabled where a block disables them."""
    text, line = block.cut.place.text, block.cut.place.line
    if text.startswith("@"):
        return f"remove line {line}, `{text}`, from {block.section.body.name}(){remove(block.cut.place)}"
    if text.startswith("with ") and "," not in text and "set_grad_enabled" not in text:
        return f"remove line {line}, `{text}`, and dedent the lines inside it{unwrap(block.cut.place)}"
    return f"enable gradients on line {line}, `{text}`"
