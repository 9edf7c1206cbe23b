"""What each storage was for, as far as its life tells it."""

from __future__ import annotations

from collections.abc import Iterable

from backsight.memory.ledger import Block, History, Kind, Span

_CLAIMED: frozenset[Kind] = frozenset({"parameters", "gradients", "optimizer state", "inputs"})


def settled(history: History) -> History:
    """Give a kind to the blocks that nobody has claimed; returns the same history.

    What the forward pass made and the next backward pass frees was saved for it. What outlives that backward pass is
    held by something else, a variable for instance: "other", as is all that is left at the end and what nobody claimed
    of what was there before. What dies before is temporary. In a recomputation (checkpointing) the same holds between
    its end and the end of the backward pass that it is a part of.
    """
    spans = history.spans
    for block in history.blocks:
        if block.kind not in _CLAIMED:
            block.kind = _kind(block, spans)
    return history


def _kind(block: Block, spans: tuple[Span, ...]) -> Kind:
    if block.born < 0:
        return "other"
    if block.phase in ("forward", "recomputation"):
        return _of_forward(block, spans)
    return "other" if block.died is None else "temporaries"


def _of_forward(block: Block, spans: Iterable[Span]) -> Kind:
    """Return the kind of what a forward pass made."""
    backwards = [s for s in spans if s.phase == "backward" and s.last > block.born and s.first > block.born]
    if not backwards:
        return "other" if block.died is None else "temporaries"
    if block.died is None:
        return "other"
    if block.died < backwards[0].first:
        return "temporaries"
    # Through the first of the passes after its birth, with the recomputations in it.
    return "saved for backward" if any(s.first <= block.died < s.last for s in _passes(spans, block.born)) else "other"


def _passes(spans: Iterable[Span], born: int) -> list[Span]:
    return [s for s in spans if s.phase in ("backward", "recomputation") and s.last > born]
