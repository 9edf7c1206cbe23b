"""What cut the loss off, as a watch has seen it happen: exact, whatever function it stands in."""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from backsight.diagnosis.errors.no_grad.fixes import of_comparison, of_copy, of_integers, of_positions, silenced
from backsight.diagnosis.errors.no_grad.scene import Scene
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import listed, shown
from backsight.findings.located import Located
from backsight.source import Place, assignments
from backsight.source.body import body_around, dotted, statements
from backsight.tracing import Line, Severed, current

_DOUBT = re.compile(r"\(Read from the source text")
_ONLY_SHAPES = frozenset({"view_as", "reshape_as", "expand_as", "type_as", "to"})
"""Operations that take no more of a second tensor than its shape or dtype."""


def as_watched(scene: Scene, read: Finding | None) -> Finding | None:
    """Return what was read from the text, exact if the watch has seen the same; else what the watch has seen."""
    watch = current()
    if watch is None or scene.root is None or (read is not None and read.exact):
        return None
    cuts = [each for each in watch.severed(scene.root) if each.line is not None and not _takes_only_shapes(each)]
    seen = {(each.line.file, each.line.line) for each in (*cuts, *watch.departures) if each.line is not None}
    if read is not None and any(isinstance(each, Located) and (each.file, each.line) in seen for each in read.evidence):
        kept = tuple(each for each in read.evidence if not _DOUBT.match(each))
        return replace(read, evidence=kept, exact=True)
    return _finding(scene, cuts) if cuts else None


def _takes_only_shapes(cut: Severed) -> bool:
    return cut.op in _ONLY_SHAPES and cut.by != "integer"


def _finding(scene: Scene, cuts: list[Severed]) -> Finding:
    nearest, line = cuts[0], cuts[0].line
    assert line is not None  # as chosen
    places = [shown(each.line, f"{_why(each)}.") for each in cuts[:3] if each.line is not None]
    block = _block(line) if nearest.by in ("no_grad", "inference") else None
    if block is not None:
        places.insert(0, shown(block, "switches gradients off for what stands inside."))
    if scene.failure.user:
        places.append(shown(scene.failure.user.place, "finds nothing to go back through."))
    others = [str(each.line) for each in cuts[3:] if each.line is not None]
    if others:
        places.append(f"Other histories end at {listed(others, 3)}.")
    return Finding(
        "BS203",
        "error",
        scene.title(_because(nearest)),
        tuple(places),
        f"{_fix(nearest, block)} {silenced(scene.loss)}",
        source=str(block or line.place),
    )


def _block(line: Line) -> Place | None:
    """The `with` around a line that switches gradients off, be it by a variable: `with context:`."""
    body = body_around(line.file, line.line)
    every = statements(body.node) if body else ()
    around = [
        each for each in every if isinstance(each, ast.With) and each.lineno < line.line <= (each.end_lineno or 0)
    ]
    for each in reversed(around):
        for item in each.items if body else ():
            name = dotted(item.context_expr)
            made = assignments(body, name) if body and name else ()
            if body and any(_MODES.search(text) for text in (body.text(item.context_expr), *(m.text for m in made))):
                return body.place(each)
    return None


_MODES = re.compile(r"no_grad|inference_mode|set_grad_enabled")


def _because(cut: Severed) -> str:
    expression = cut.line.segment if cut.line and cut.line.segment else cut.op
    match cut.by:
        case "no_grad":
            return f"{expression} ran while gradients were switched off, so nothing of it was recorded"
        case "inference":
            return f"{expression} ran under torch.inference_mode(), where nothing is recorded"
        case "rewrapped":
            return f"{expression} creates a new tensor, detached from the model"
        case "frozen":
            return f"{expression} ran on nothing that requires grad"
    return f"{expression} cut it off from what is to be trained"


def _why(cut: Severed) -> str:
    what = cut.operand or "what it was given"
    match cut.by:
        case "integer":
            return f"makes {cut.dtype or 'integers'} of {what}: only floating point has a gradient"
        case "no_grad" | "inference":
            return f"computes from what is to be trained, and is not recorded ({cut.op})"
        case "frozen":
            return f"computes {cut.op} from what does not require grad"
        case "rewrapped":
            return f"copies the values of {what} into a new tensor, without a graph"
    return f"detaches {what} ({cut.op})"


def _fix(cut: Severed, block: Place | None) -> str:
    operand = cut.operand or "the tensor"
    expression = cut.line.segment if cut.line and cut.line.segment else cut.op
    match cut.by:
        case "integer" if cut.op.startswith("arg") or cut.op in _POSITIONS:
            return of_positions(operand, cut.op)
        case "integer" if cut.dtype == "bool":
            return of_comparison(operand)
        case "integer":
            return of_integers(operand)
        case "detach" | "data":
            return f"Use {operand} itself in place of {expression}; keep that for what must not be trained."
        case "rewrapped":
            return of_copy(operand, expression)
        case "no_grad" | "inference" if block is not None:
            return (
                f"Compute {expression} outside of that block, `{block.text.rstrip(':')}`, wherever it is to be trained."
            )
        case "no_grad" | "inference":
            return f"Compute {expression} with gradients switched on: outside of the block, or before they are."
        case "frozen":
            return f"Let something that {expression} is given require grad."
    return f"Compute the loss without {expression}: it has no gradient."


_POSITIONS = frozenset(
    {"topk", "sort", "max", "min", "kthvalue", "mode", "median", "cummax", "cummin"}
    | {"nonzero", "multinomial", "searchsorted", "bucketize"}
)
