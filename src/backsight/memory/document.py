"""The memory of a step as a document: plain JSON that holds every birth and death, and back again."""

from __future__ import annotations

from typing import Any, get_args

from backsight.memory.ledger import KINDS, Block, History, Phase, Span
from backsight.memory.timeline import StepMemory
from backsight.tape.reading import BadDocument, Part

VERSION = 1

MOST = 2_000_000
"""Births, deaths or storages of a document that is read."""


def document(memory: StepMemory) -> dict[str, Any]:
    """Return what was measured as plain JSON.

    ```python
    text = json.dumps(document(m))
    print(memory_of(json.loads(text)).at_peak)
    ```

    Raises:
        RuntimeError: if the step has not ended.
    """
    history = memory.history
    return {
        "version": VERSION,
        "forecast": memory.is_forecast,
        "failed": memory.failed,
        "others": list(memory.others),
        "ended": history.ended - history.began,
        "time": (history.time - history.began).tolist(),
        "block": history.block.tolist(),
        "delta": history.delta.tolist(),
        "spans": [[s.phase, s.first, s.last, s.began - history.began, s.ended - history.began] for s in history.spans],
        "blocks": [_block(block) for block in history.blocks],
        "classes": dict(history.classes),
    }


def memory_of(held: Any) -> StepMemory:
    """Return the memory that a document is of. Times begin at 0.

    Raises:
        BadDocument: if it is of none; the message says where it is wrong.
    """
    part = Part.of(held)
    if part.number("version") != VERSION:
        raise BadDocument(f"its version is {part.number('version')}, but this backsight reads {VERSION}")
    time = part.numbers("time", low=-(2**62), count=range(MOST + 1))
    blocks = tuple(_read_block(k, each, len(time)) for k, each in enumerate(part.parts("blocks")))
    if len(blocks) > MOST:
        raise BadDocument(f"it has {len(blocks):,} storages")
    block = part.numbers("block", low=0, high=len(blocks), count=(len(time),))
    delta = part.numbers("delta", low=-(2**50), high=2**50, count=(len(time),))
    spans = tuple(_read_span(each, len(time)) for each in part.parts("spans"))
    memory = StepMemory(forecast=part.at("forecast", bool))
    ended = part.number("ended")
    others = tuple(part.texts("others"))
    history = History(blocks, spans, time, block, delta, 0, ended, _read_classes(part))
    memory.fill(history, others, failed=part.at("failed", str))
    return memory


def _read_classes(part: Part) -> dict[str, str]:
    """Return the classes of modules, which documents of older versions do not have."""
    if "classes" not in part.held:
        return {}
    held = part.at("classes", dict)
    return {path: part.part("classes").at(path, str) for path in held}


def _block(block: Block) -> list[Any]:
    return [
        block.bytes,
        block.device,
        block.born,
        block.died,
        block.kind,
        block.name,
        block.op,
        block.node,
        block.module,
        block.phase,
        None if block.shape is None else list(block.shape),
        block.dtype,
        block.source,
    ]


def _read_block(number: int, part: Part, changes: int) -> Block:
    died = None if part.at(3) is None else part.whole(3, changes)
    shape = None if part.at(10) is None else part.shape(10)
    return Block(
        number,
        part.number(0, 0, 2**50),
        part.at(1, str),
        part.number(2, -1, changes - 1),
        died,
        part.word(4, KINDS),
        part.at(5, str),
        part.at(6, str),
        part.at(7, str),
        part.at(8, str),
        part.word(9, get_args(Phase)),
        shape,
        part.at(11, str),
        part.at(12, str) if len(part.items()) > 12 else "",
    )


def _read_span(part: Part, changes: int) -> Span:
    return Span(
        part.word(0, get_args(Phase)),
        part.number(1, 0, changes),
        part.number(2, 0, changes),
        part.number(3, -(2**62)),
        part.number(4, -(2**62)),
    )
