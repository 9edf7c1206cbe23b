"""BS231: the host waits for the device while a CUDA graph is captured."""

from __future__ import annotations

import ast
import re
from typing import NamedTuple

import torch

from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.evidence.refused import Refusal
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, shown
from backsight.source.body import callee, calls_in
from backsight.source.edits import write
from backsight.source.rewriting import rewritten, simple
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, Level, failure_of, message_of, of_error

_CAPTURING = (
    r"operation not permitted when stream is capturing",
    r"operation failed due to a previous error during capture",
    r"operation would make the legacy stream depend on a capturing blocking stream",
)
_READS = ("item", "tolist", "cpu", "numpy", "nonzero", "synchronize", "print", "float", "int", "bool")


@explains("BS231", *_CAPTURING)
def captured(failure: Failure, match: re.Match[str]) -> Finding:
    """Name the call that waits for the device: of two errors, the first has its line."""
    first = _first(failure)
    level = first.user
    refusal = Refusal(first, level) if level else None
    whole = refusal.expression if refusal else None
    where = (shown(failure.user.place, "captures the graph."),) if failure.user and first is not failure else ()
    masked = next(filter(None, (_masked(level, node) for node in ast.walk(whole))), None) if level and whole else None
    if masked is not None:
        return explanation(
            f"{masked.text} selects by a mask while a CUDA graph is captured: how many entries that are is not known "
            "before the graph is replayed.",
            (*failing(first, "needs the number of entries, for which it waits."), *where),
            masked.fix,
            source=first.source,
        )
    calls = (node for node in ast.walk(whole) if isinstance(node, ast.Call)) if whole is not None else ()
    reading = next((node for node in calls if callee(node)[1] in _READS), None)
    call, reads = reading or whole, reading is not None
    written = level.body.text(call) if level and level.body and call is not None else ""
    text = "" if "…" in written else written
    what = text if isinstance(call, ast.expr) and text else "This line"
    says = "waits for the device" if reads else "does what a graph cannot record"
    return explanation(
        f"{what} {says} while a CUDA graph is captured: nothing runs until the graph is replayed.",
        (*failing(first, "fails here." if not reads else "needs a value that does not exist yet."), *where),
        "Keep it a tensor in what is captured: no .item(), .cpu(), print or `if` on a value, but torch.where(...) or a "
        "product with the condition. Read the tensor after graph.replay().",
        source=first.source,
        exact=reads,
    )


class _Masked(NamedTuple):
    text: str
    fix: str


def _masked(level: Level, node: ast.AST) -> _Masked | None:
    """What is selected by a mask, `per[real]`, and how to compute the same with tensors whose shapes are known."""
    match node:
        case ast.Subscript(value=of, slice=mask):
            pass
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr="masked_select"), args=[of, mask]):
            pass
        case ast.Call(func=ast.Attribute(value=of, attr="masked_select"), args=[mask]):
            pass
        case _:
            return None
    body, held, chosen = level.body, value_of(level, of), value_of(level, mask)
    if body is None or not _is_mask(chosen, mask) or (held is not None and not isinstance(held, torch.Tensor)):
        return None
    x, m = simple(body.text(of)), simple(body.text(mask))
    wide = isinstance(held, torch.Tensor) and isinstance(chosen, torch.Tensor) and held.dim() > chosen.dim()
    zeroed = f"{x} * {m}" if not wide else f"{x} * {m}[..., None]"
    general = (
        f"Keep all entries, and let the mask decide what counts: {zeroed} in place of {body.text(node)}, and {m}.sum() "
        "for their number."
    )
    line = _rewritten(level, node, x, m, zeroed) if not wide else ""
    fix = general
    if line:
        fix = f"Keep all entries, and let the mask decide what counts: write `{line}`{write(level.place, line)}."
    return _Masked(body.text(node), f"{fix} Its shapes do not depend on values, so the graph can record it.")


def _is_mask(value: object, node: ast.expr) -> bool:
    if isinstance(value, torch.Tensor):
        return value.dtype == torch.bool
    return value is None and isinstance(node, ast.Compare | ast.UnaryOp | ast.BinOp) and not isinstance(node, ast.Slice)


def _rewritten(level: Level, node: ast.expr, x: str, m: str, zeroed: str) -> str:
    """The statement with what it computes of the selected entries computed of all; empty for what is not known."""
    body, statement = level.body, level.statement
    if body is None or statement is None:
        return ""
    lowest, not_m = 'float("-inf")', f"~{m}" if m.isidentifier() else f"~({m.strip('()')})"
    instead = {
        "mean": f"({zeroed}).sum() / {m}.sum()",
        "sum": f"({zeroed}).sum()",
        "max": f"{x}.masked_fill({not_m}, {lowest}).max()",
        "min": f"{x}.masked_fill({not_m}, {lowest.replace('-', '')}).min()",
    }
    for call in calls_in(statement):
        receiver, method = callee(call)
        if receiver is node and not call.args and not call.keywords and method in instead:
            alone = getattr(statement, "value", None) is call or method != "mean"
            return rewritten(body, statement, {call: instead[method] if alone else f"({instead[method]})"})
    return ""


def _first(failure: Failure) -> Failure:
    """The error that ended the capture: the one that was handled when the end of the capture failed."""
    before = of_error(failure.error, "__context__")
    if before is None or not any(re.search(pattern, message_of(before)) for pattern in _CAPTURING):
        return failure
    return failure_of(before)
