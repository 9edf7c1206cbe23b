"""An operation that gives NaN though it is given finite numbers: of a parameter, or the last one of a module."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from backsight.diagnosis.births.birth import number
from backsight.diagnosis.recordings.recording import Recording
from backsight.diagnosis.recordings.rows import Rows
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

_POSITIVE_NUMBERS, _UNIT = (0.0, math.inf), (-1.0, 1.0)

_DOMAINS = {
    **dict.fromkeys(("Log", "Log2", "Log10", "Sqrt", "Rsqrt"), _POSITIVE_NUMBERS),
    "Log1P": (-1.0, math.inf),
    **dict.fromkeys(("Acos", "Asin", "Atanh"), _UNIT),
}
"""From where to where an operation is defined."""

_FREE = {
    _POSITIVE_NUMBERS: "Nothing keeps the parameter {0} from becoming negative: compute {1} of F.softplus({0}), or "
    "train its logarithm and take .exp() of it.",
    _UNIT: "Nothing keeps the parameter {0} from -1 to 1: compute {1} of torch.tanh({0}).",
}


class Undefined(NamedTuple):
    """What to do about an operation that gives NaN where nothing is infinite, its line where that is known, and what
    was seen of it."""

    fix: str
    line: str | None
    seen: tuple[str, ...] = ()


def of_a_parameter(recording: Recording, step: int) -> Undefined | None:
    """Return the first operation in the forward pass whose operand is a parameter that was outside of what it is
    defined for, at this step; None if there is none."""
    weights = recording.rows("weight")
    for op, name, line in _on_parameters(recording):
        low, high = _DOMAINS[op]
        rows = weights.get(name)
        at = int(rows["step"].searchsorted(step)) if rows is not None else 0
        if rows is None or at == len(rows) or rows["step"][at] != step:
            continue
        if rows["min"][at] < low or rows["max"][at] > high:
            what = op.lower()
            why = f"The forward computes {what} of {name}, which {_went(rows, at)}: {what} is NaN there."
            free = _FREE.get((low, high), f"Nothing keeps the parameter {{0}} above {low:.0f}.").format(name, what)
            return Undefined(free, line, (why,))
    return None


def _on_parameters(recording: Recording) -> Iterator[tuple[str, str, str | None]]:
    """Yield the operations that are not defined for every number and have a parameter as their operand, in the order
    of the forward pass: each with the name of the parameter, and its line."""
    graph = recording.graph
    for node in reversed(graph.nodes if graph is not None else ()):
        edge = node.inputs[0] if node.op in _DOMAINS and node.inputs else None
        while edge is not None and edge.node.op in VIEWS and edge.node.inputs:
            edge = edge.node.inputs[0]
        if edge is not None and edge.node.leaf is not None:
            yield node.op, edge.node.leaf.name, graph.lines[node.index] if graph.lines else None


def _went(rows: Rows, at: int) -> str:
    """`went from 0.01093 at step 65 to -0.003246 at step 66`; of many numbers, the smallest and the largest."""
    steps = rows["step"]

    def told(k: int) -> str:
        low, high = number(rows["min"][k]), number(rows["max"][k])
        return f"{low if low == high else f'{low} to {high}'} at step {steps[k]}"

    return f"went from {told(at - 1)} to {told(at)}" if at and _is_finite(rows, at - 1) else f"was {told(at)}"


def _is_finite(rows: Rows, at: int) -> bool:
    return not rows["nans"][at] + rows["infs"][at]


def last_operation(recording: Recording, module: str) -> Undefined | None:
    """Return what is known of the last operation of a module, if it can give NaN; None if it tells nothing."""
    op, line = _ends_in(recording, module)
    known = _UNDEFINED.get(op or "")
    if known is None:
        return None
    return Undefined(f"{f'Module {module}' if module else 'The model'} ends in {known[0]}. {known[1]}", line)


def _ends_in(recording: Recording, module: str) -> tuple[str | None, str | None]:
    """Return the operation whose result a module returns, and its line, if all of its calls end in the same."""
    graph = recording.graph
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
