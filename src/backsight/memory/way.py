"""`Way`: how a training step is done, as far as its memory is concerned."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from backsight.text import size

Implementation = Literal["loop", "foreach", "fused"]
"""How an optimizer in PyTorch updates: one tensor after another, in lists, or all in one kernel."""


@dataclass(frozen=True)
class Way:
    """How a training step is done.

    `implementation` is None where the optimizer knows only one. `release` is the bucket of gradient release, such as
    "16MB", "auto" for its default, or None for the ordinary step. `checkpointing` names the modules whose activations
    are computed again in the backward pass: all repeated blocks for True, none for False.
    """

    implementation: Implementation | None = None
    release: str | float | None = None
    checkpointing: bool | tuple[str, ...] = False

    def __str__(self) -> str:
        """Return it in words, such as "checkpointed, released, fused"."""
        words = ["checkpointed"] if self.checkpointing else []
        bucket = self.release if isinstance(self.release, str) else size(self.release) if self.release else "each"
        released = "released" if bucket == "auto" else f"released ({bucket})"
        words.append("ordinary" if self.release is None else released)
        return ", ".join([*words, *([self.implementation] if self.implementation else [])])


def others(asked: Way, known: tuple[Implementation, ...], bucket: str | float, repeated: bool) -> tuple[Way, ...]:
    """Return the ways to compare with the one that was asked for, itself first, the others from plain to involved.

    `known`: the implementations that the optimizer has, the slowest first. `repeated`: whether the model has blocks to
    checkpoint.
    """
    best = "fused" if "fused" in known else asked.implementation
    ways = [asked]
    ordinary: list[Implementation | None] = [each for each in known if each != "loop"]
    ways += [Way(each, checkpointing=asked.checkpointing) for each in ordinary or [asked.implementation]]
    ways += [Way(each, release=bucket, checkpointing=asked.checkpointing) for each in (asked.implementation, best)]
    if repeated:
        ways += [replace(way, checkpointing=not asked.checkpointing) for way in (Way(best), Way(best, release=bucket))]
    return tuple(dict.fromkeys(ways))
