"""Whether gradient release and checkpointing help a training step, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from backsight.text import amount

if TYPE_CHECKING:
    from backsight.memory.plan import Variant
    from backsight.memory.way import Way

_SAME = 0.005
"""Peaks nearer than this part are the same: a forecast is not better."""

FLAG = {"fused": "fused=True", "foreach": "foreach=True", "loop": "foreach=False"}
"""What an optimizer is given for each implementation."""

_NOT_FROM_GRADIENTS = {
    None: "and not from the gradients",
    "forward": "before there are gradients",
    "recomputation": "before most gradients exist",
    "backward": "before most gradients exist",
    "optimizer": "and not from the gradients",
}

_FEW = 0.02
"""Gradients of less than this part of a peak are not what it is made of."""


def sentences(variants: Sequence[Variant]) -> Iterator[str]:
    """Yield a sentence for each thing that could be done otherwise than in `variants[0]`.

    Release is compared with the best ordinary step, so that what another implementation saves is not credited to it.
    """
    asked = variants[0]
    checkpointing = bool(asked.way.checkpointing)
    base = ordinary(variants)
    other = base.way.implementation
    if asked.way.release is None and other and base.peak < asked.peak * (1 - _SAME):
        yield f"{FLAG[other]} of the optimizer alone saves {_saved(asked, base)}."
    released = _least(variants, release=True, checkpointing=checkpointing)
    if released is not None and released is not base:
        at_once = asked.way.release is None and released.way.release == 0
        what = "Gradient release with release=0 (--release 0)" if at_once else "Gradient release"
        yield _verdict(f"{what} saves", released, base, _why_not_released(released))
    if checkpointing:
        return
    checkpointed = _least(variants, release=False, checkpointing=True)
    if checkpointed is not None:
        yield _verdict("Checkpointing saves", checkpointed, base, "where few activations are left")
    both = _least(variants, release=True, checkpointing=True)
    if both is not None:
        yield _verdict("Both together save", both, base, "and stays there")


def without_bucket(variants: Sequence[Variant]) -> Way | None:
    """Return the way that uses each gradient at once, where gradients that wait in a bucket may be why release saves
    nothing; None where that cannot be."""
    checkpointing = bool(variants[0].way.checkpointing)
    released = _least(variants, release=True, checkpointing=checkpointing)
    if released is None or variants[0].way.release is not None or saves(released, ordinary(variants)):
        return None
    waits = released.at_peak.by_kind["gradients"] >= _FEW * released.peak
    return replace(released.way, release=0) if waits else None


def ordinary(variants: Sequence[Variant]) -> Variant:
    """Return the best step without release, with or without checkpointing as the one that was asked for."""
    return _least(variants, release=False, checkpointing=bool(variants[0].way.checkpointing)) or variants[0]


def saves(other: Variant, base: Variant) -> bool:
    """Whether a peak is lower than another, by more than a forecast may be wrong."""
    return other.peak < base.peak * (1 - _SAME)


def _least(variants: Sequence[Variant], *, release: bool, checkpointing: bool) -> Variant | None:
    """Return the variant of this kind with the lowest peak."""
    ways = ((each.way, each) for each in variants)
    found = [v for w, v in ways if (w.release is not None) == release and bool(w.checkpointing) == checkpointing]
    return min(found, key=lambda each: each.peak, default=None)


def _why_not_released(released: Variant) -> str:
    """Say why release does not lower a peak, by the gradients that are there with it all the same."""
    peak = released.at_peak
    if peak.by_kind["gradients"] < _FEW * peak.bytes:
        return _NOT_FROM_GRADIENTS[peak.phase]
    return "and not from gradients that could be freed earlier"


def _verdict(what: str, other: Variant, base: Variant, why_not: str) -> str:
    if saves(other, base):
        return f"{what} {_saved(base, other)}; the peak is then {other.at_peak.where}."
    return f"{what} nothing: the peak is {base.at_peak.where}, {why_not}."


def _saved(before: Variant, after: Variant) -> str:
    return f"{amount(before.peak - after.peak)} ({(before.peak - after.peak) / before.peak:.0%})"
