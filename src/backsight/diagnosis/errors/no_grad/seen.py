"""What cut the loss off, as a watch has seen it happen: exact, whatever function it stands in."""

from __future__ import annotations

import ast

import torch

from backsight.diagnosis.errors.no_grad.suspects import Suspect
from backsight.source import Cut, Place, assignments
from backsight.source.body import Body, body_around, dotted, statements
from backsight.source.cut_rules import Kind
from backsight.story.sections import Section
from backsight.tracing import Line, Severed, current

_ONLY_SHAPES = frozenset({"view_as", "reshape_as", "expand_as", "type_as", "to"})
"""Operations that take no more of a second tensor than its shape or dtype."""

_POSITIONS = frozenset(
    {"topk", "sort", "max", "min", "kthvalue", "mode", "median", "cummax", "cummin"}
    | {"nonzero", "multinomial", "searchsorted", "bucketize"}
)

_MODES = ("no_grad", "inference_mode", "set_grad_enabled")


def seen(root: torch.Tensor | None) -> tuple[list[Suspect], frozenset[tuple[str, int]]]:
    """Return what cut `root` off, the nearest first, and the file and line of each place where a history ended or left
    for Python; nothing without a watch."""
    watch = current()
    if watch is None or root is None:
        return [], frozenset()
    every = [each for each in watch.severed(root) if each.line and not _takes_only_shapes(each)]
    lines = (each.line for each in (*every, *watch.departures) if each.line)
    return [_suspect(each, each.line) for each in every if each.line], frozenset((at.file, at.line) for at in lines)


def _takes_only_shapes(cut: Severed) -> bool:
    return cut.op in _ONLY_SHAPES and cut.by != "integer"


def _suspect(cut: Severed, line: Line) -> Suspect:
    body = body_around(line.file, line.line)
    expression, operand = line.segment or cut.op, cut.operand
    section = Section(body or Body(line.file, ast.Module([], []), ()), (), {}, {})
    if cut.by in ("no_grad", "inference"):
        block = _block(body, line) if body else None
        inside = ((line.place, operand),)
        if block is None:
            why = "runs while gradients are switched off, so that nothing of it is recorded"
            return Suspect(section, Cut("no_grad", line.place, expression, why), True, operand, seen=True)
        return Suspect(section, Cut("no_grad", *block, "records nothing"), True, operand, inside, seen=True)
    kind, why = _kind_and_why(cut)
    return Suspect(section, Cut(kind, line.place, expression, why), True, operand, seen=True)


def _kind_and_why(cut: Severed) -> tuple[Kind, str]:
    what = cut.operand or "what it was given"
    match cut.by:
        case "integer":
            is_index = cut.op.startswith("arg") or cut.op in _POSITIONS
            kind: Kind = "index" if is_index else "comparison" if cut.dtype == "bool" else "integer"
            return kind, f"makes {cut.dtype or 'integers'} of {what}: only floating point has a gradient"
        case "frozen":
            return "frozen", f"computes {cut.op} from what does not require grad"
        case "rewrapped":
            return "copy", f"copies the values of {what} into a new tensor, without a graph"
        case "not differentiable":
            return "rounding", f"has no gradient with respect to {what} ({cut.op})"
    return "detach", f"detaches {what} ({cut.op})"


def _block(body: Body, line: Line) -> tuple[Place, str] | None:
    """The `with` around a line that switches gradients off, be it by a variable, `with context:`, and what it says."""
    around = [each for each in statements(body.node) if isinstance(each, ast.With)]
    for each in reversed([each for each in around if each.lineno < line.line <= (each.end_lineno or 0)]):
        for item in each.items:
            text, name = body.text(item.context_expr), dotted(item.context_expr)
            made = assignments(body, name) if name else ()
            if any(mode in written for mode in _MODES for written in (text, *(each.text for each in made))):
                return body.place(each), text
    return None
