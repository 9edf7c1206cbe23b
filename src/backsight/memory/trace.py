"""A step's memory as a chrome trace: counters by kind, phases, and the largest storages as bars over their lives.

The form: "Trace Event Format", which Perfetto and chrome://tracing read. Times are microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from backsight.memory.curves import by_kind, seconds
from backsight.memory.explain import label

if TYPE_CHECKING:
    from backsight.memory.ledger import Block, History
    from backsight.memory.timeline import StepMemory

BARS = 2000
"""Storages that have a bar; the largest. Each would make the trace long, and most are tiny."""


def trace(memory: StepMemory) -> str:
    """Return the trace as JSON."""
    history = memory.history
    events = [*_names(memory), *_counters(history), *_phases(history), *_bars(history)]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}, separators=(",", ":"))


def _names(memory: StepMemory) -> Iterator[dict[str, Any]]:
    yield {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": f"memory of a step on {memory.device}"}}
    yield {"ph": "M", "pid": 1, "tid": 1, "name": "thread_name", "args": {"name": "phases"}}


def _counters(history: History) -> Iterator[dict[str, Any]]:
    """Yield the bytes by kind after each change; the viewer stacks them."""
    curves = {kind: curve.tolist() for kind, curve in by_kind(history).items() if curve.any()}
    for at, moment in enumerate((seconds(history) * 1e6).tolist()):
        args = {kind: curve[at] for kind, curve in curves.items()}
        yield {"ph": "C", "pid": 1, "name": "bytes by kind", "ts": moment, "args": args}


def _phases(history: History) -> Iterator[dict[str, Any]]:
    for span in history.spans:
        began, length = (span.began - history.began) / 1e3, (span.ended - span.began) / 1e3
        yield {"ph": "X", "pid": 1, "tid": 1, "name": span.phase, "cat": "phase", "ts": began, "dur": length}


def _bars(history: History) -> Iterator[dict[str, Any]]:
    """Yield a pair of events for each of the largest storages; lives overlap, so they are asynchronous events."""
    times = (seconds(history) * 1e6).tolist()
    for block in sorted(history.blocks, key=lambda each: -each.bytes)[:BARS]:
        shared = {"pid": 1, "cat": block.kind, "id": block.number, "name": label(block)}
        yield {**shared, "ph": "b", "ts": times[block.born + 1], "args": _told(block)}
        yield {**shared, "ph": "e", "ts": times[-1 if block.died is None else block.died + 1]}


def _told(block: Block) -> dict[str, Any]:
    told = {"bytes": block.bytes, "shape": block.shape, "dtype": block.dtype, "module": block.module}
    return {**told, "operator": block.op, "autograd node": block.node}
