"""Whether gradient release and checkpointing help a training step, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from backsight.memory.explain import amount

if TYPE_CHECKING:
    from backsight.memory.plan import Variant

_SAME = 0.005
"""Peaks nearer than this part are the same: a forecast is not better."""

_WHY_NOT = {
    None: "and not from the gradients",
    "forward": "before there are gradients",
    "recomputation": "before most gradients exist",
    "backward": "before most gradients exist",
    "optimizer": "and not from the gradients",
}


def sentences(variants: Sequence[Variant]) -> Iterator[str]:
    """Yield a sentence for each thing that could be done otherwise than in `variants[0]`.

    Release is compared with the best ordinary step, so that what another implementation saves is not credited to it.
    """
    asked = variants[0]
    ordinary = [each for each in variants if each.way.release is None]
    plain = [each for each in ordinary if each.way.checkpointing == asked.way.checkpointing]
    base = min(plain, key=lambda each: each.peak, default=asked)
    if asked.way.release is None and base.peak < asked.peak * (1 - _SAME):
        yield f"{base.way.implementation}=True alone saves {_saved(asked, base)}."
    for each in variants:
        released, checkpointed = each.way.release is not None, each.way.checkpointing != base.way.checkpointing
        if released and not checkpointed:
            yield _verdict("Gradient release", each, base, _WHY_NOT[base.at_peak.phase])
        elif checkpointed and not released and each.way.checkpointing:
            yield _verdict("Checkpointing", each, base, "where its activations are gone")
        elif checkpointed and each.way.checkpointing:
            yield _verdict("Both together", each, base, "and stays")


def _verdict(what: str, other: Variant, base: Variant, why_not: str) -> str:
    saves = "save" if what.startswith("Both") else "saves"
    if other.peak < base.peak * (1 - _SAME):
        return f"{what} {saves} {_saved(base, other)}; the peak is then {other.at_peak.where}."
    return f"{what} {saves} nothing: the peak is {base.at_peak.where}, {why_not}."


def _saved(before: Variant, after: Variant) -> str:
    return f"{amount(before.peak - after.peak)} ({(before.peak - after.peak) / before.peak:.0%})"
