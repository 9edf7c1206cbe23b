"""What a program calls its own modules and tensors, and for how long."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from types import FrameType
from typing import NamedTuple

import torch

from backsight.naming import Name, search

_TORCH = os.path.dirname(torch.__file__) + os.sep

_HELD = ("local", "global", "closure", "attribute", "item", "module", "parameter", "buffer")
"""Kinds of names that are a variable of the program, or an expression from one."""


class Lasting(NamedTuple):
    """What the program calls an object: `generator`, or `critic` for what a method knows as `self.critic`."""

    name: str | None
    until: float
    """How many functions have to return before the variable is gone."""

    def outlasts(self, other: Lasting) -> bool:
        """Whether this is there when the other is gone."""
        return self.until > other.until


def called(objects: Sequence[object]) -> list[str | None]:
    """Return what the program calls each; None where no variable leads to it."""
    return [each.name for each in lasting(objects)]


def lasting(objects: Sequence[object]) -> list[Lasting]:
    """Return what the program calls each, and how long its longest-lived variable lasts."""
    found = search(objects, limit=8).names if objects else ()
    frames = _frames()
    return [_lasting([name for name in names if _is_own(name)], frames) for names in found]


def _lasting(names: Sequence[Name], frames: Sequence[tuple[str, int]]) -> Lasting:
    if not names:
        return Lasting(None, -1)
    until = [_until(name, frames) for name in names]
    # What a function knows as an argument, or as part of one, is known better by the variable that was given for it.
    plain = [at for at, name in enumerate(names) if at == 0 or name.kind in ("local", "global", "closure")]
    best = max(plain, key=until.__getitem__)
    return Lasting(names[best].path.removeprefix("self."), max(until))


def _until(name: Name, frames: Sequence[tuple[str, int]]) -> float:
    if name.file is None or name.line is None or name.kind == "global":
        return math.inf
    return max((at for at, place in enumerate(frames) if place == (name.file, name.line)), default=math.inf)


def _frames() -> list[tuple[str, int]]:
    """Return where the functions stand that are running, from the innermost on."""
    found = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        found.append((frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    return found


def _is_own(name: Name) -> bool:
    path = name.path.removeprefix("self.")
    of_torch = name.file is not None and name.file.startswith(_TORCH)  # whose functions are making the call
    inside = "._" in path  # the innards of something, such as the notes of a watch
    of_optimizer = "param_groups" in path
    return name.kind in _HELD and path != "self" and not (of_torch or inside or of_optimizer)
