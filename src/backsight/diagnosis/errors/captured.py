"""BS231: the host waits for the device while a CUDA graph is captured."""

from __future__ import annotations

import ast
import re

from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.evidence.refused import Refusal
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import failing, shown
from backsight.source.body import callee
from backsight.story.failure import Failure, failure_of, message_of, of_error

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
    calls = (node for node in ast.walk(whole) if isinstance(node, ast.Call)) if whole is not None else ()
    reading = next((node for node in calls if callee(node)[1] in _READS), None)
    call, reads = reading or whole, reading is not None
    written = level.body.text(call) if level and level.body and call is not None else ""
    text = "" if "…" in written else written
    where = (shown(failure.user.place, "captures the graph."),) if failure.user and first is not failure else ()
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


def _first(failure: Failure) -> Failure:
    """The error that ended the capture: the one that was handled when the end of the capture failed."""
    before = of_error(failure.error, "__context__")
    if before is None or not any(re.search(pattern, message_of(before)) for pattern in _CAPTURING):
        return failure
    return failure_of(before)
