"""Whether gradient release and checkpointing help a training step, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from backsight.text import amount

if TYPE_CHECKING:
    from backsight.memory.plan import Variant

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
    base = _least(variants, release=False, checkpointing=checkpointing) or asked
    other = base.way.implementation
    if asked.way.release is None and other and base.peak < asked.peak * (1 - _SAME):
        yield f"{FLAG[other]} of the optimizer alone saves {_saved(asked, base)}."
    released = _least(variants, release=True, checkpointing=checkpointing)
    if released is not None and released is not base:
        yield _verdict("Gradient release saves", released, base, _why_not_released(released))
    if checkpointing:
        return
    checkpointed = _least(variants, release=False, checkpointing=True)
    if checkpointed is not None:
        yield _verdict("Checkpointing saves", checkpointed, base, "where few activations are left")
    both = _least(variants, release=True, checkpointing=True)
    if both is not None:
        yield _verdict("Both together save", both, base, "and stays there")


def _least(variants: Sequence[Variant], *, release: bool, checkpointing: bool) -> Variant | None:
    """Return the variant of this kind with the lowest peak."""
    ways = ((each.way, each) for each in variants)
    found = [v for w, v in ways if (w.release is not None) == release and bool(w.checkpointing) == checkpointing]
    return min(found, key=lambda each: each.peak, default=None)


def _why_not_released(released: Variant) -> str:
    """Say why release does not lower a peak, by the gradients that are there with it all the same."""
    peak = released.at_peak
    held = peak.by_kind["gradients"]
    if held < _FEW * peak.bytes:
        return _NOT_FROM_GRADIENTS[peak.phase]
    if released.way.release in (0, "0"):
        return "and not from gradients that could be freed earlier"
    return f"where {amount(held)} of gradients wait in a bucket; release=0 (--release 0) uses each at once"


def _verdict(what: str, other: Variant, base: Variant, why_not: str) -> str:
    if other.peak < base.peak * (1 - _SAME):
        return f"{what} {_saved(base, other)}; the peak is then {other.at_peak.where}."
    return f"{what} nothing: the peak is {base.at_peak.where}, {why_not}."


def _saved(before: Variant, after: Variant) -> str:
    return f"{amount(before.peak - after.peak)} ({(before.peak - after.peak) / before.peak:.0%})"
