"""The operation that a module ends in, and when that gives NaN though it is given finite numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

from backsight.diagnosis.recordings.recording import Recording
from backsight.runs import DamagedRun
from backsight.tape.ops import VIEWS, op_name

_POSITIVE = "Keep its argument positive, for example with .clamp(min=1e-6) or softplus."
_INSIDE = "Keep its argument inside, for example with .clamp(-1 + 1e-6, 1 - 1e-6)."

_UNDEFINED = {
    "Log": ("log, which is NaN for a negative number; log(0) is -inf", _POSITIVE),
    "Log2": ("log2, which is NaN for a negative number; log2(0) is -inf", _POSITIVE),
    "Log10": ("log10, which is NaN for a negative number; log10(0) is -inf", _POSITIVE),
    "Log1P": (
        "log1p, which is NaN below -1; log1p(-1) is -inf",
        "Keep its argument above -1, for example with .clamp(min=-1 + 1e-6).",
    ),
    "Sqrt": ("sqrt, which is NaN for a negative number", _POSITIVE),
    "Rsqrt": ("rsqrt, which is NaN for a negative number; rsqrt(0) is infinite", _POSITIVE),
    "Div": ("a division, which is NaN for 0 / 0; any other number over 0 is infinite", "Keep its denominator from 0."),
    "Acos": ("acos, which is NaN outside of -1 to 1", _INSIDE),
    "Asin": ("asin, which is NaN outside of -1 to 1", _INSIDE),
    "Atanh": ("atanh, which is NaN outside of -1 to 1; atanh(1) is infinite", _INSIDE),
    "Softmax": ("softmax, which is NaN in a row of -inf only", "Leave at least one position of each row unmasked."),
    "LogSoftmax": (
        "log_softmax, which is NaN in a row of -inf only",
        "Leave at least one position of each row unmasked.",
    ),
}
"""When an operation gives NaN without infinity beside it, and what to do."""


class Undefined(NamedTuple):
    """Why the last operation of a module gives NaN where nothing is infinite, and its line where that is known."""

    why: str
    line: str | None


def undefined(recording: Recording, module: str) -> Undefined | None:
    """Return what is known of the last operation of a module, if it can give NaN; None if it tells nothing."""
    op, line = _last_operation(recording, module)
    known = _UNDEFINED.get(op or "")
    if known is None:
        return None
    return Undefined(f"{f'Module {module}' if module else 'The model'} ends in {known[0]}. {known[1]}", line)


def _last_operation(recording: Recording, module: str) -> tuple[str | None, str | None]:
    """Return the operation whose result a module returns, and its line, if all of its calls end in the same."""
    try:
        graph: Any = recording.run.graph
    except DamagedRun:
        return None, None
    if graph is None:
        return None, None
    last: dict[int, tuple[str, str | None]] = {}
    for node, around in enumerate(graph.around):  # backward order: what is made last comes first
        if (op := op_name(graph.types[graph.columns.type[node]].name)) not in VIEWS:
            for path, call in around:
                if path == module:
                    last.setdefault(call, (op, graph.lines[node] if graph.lines else None))
    ops, lines = {op for op, _ in last.values()}, {line for _, line in last.values()}
    return ops.pop() if len(ops) == 1 else None, lines.pop() if len(lines) == 1 else None
