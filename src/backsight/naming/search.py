"""The search: which Python variables hold these objects."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import FrameType

from . import _torch
from .elsewhere import trains_elsewhere
from .lineage import Lineage
from .name import Name
from .referents import Where
from .roots import Root, frame_root, stages
from .standstill import shared
from .suspended import suspended
from .walk import Walk

BUDGET = 2_000_000
_USER_STAGES = 4  # the given frames, the caller's thread, the other threads, the user's modules


@dataclass(frozen=True, slots=True)
class Search:
    """What a search found: the names of each target, best first, and the collected objects with their best name.

    `complete` is False when the budget ran out before everything was looked at: a target without a name may have one.
    """

    names: tuple[tuple[Name, ...], ...]
    found: tuple[tuple[object, Name], ...] = ()
    complete: bool = True
    visited: int = 0


def search(
    targets: Sequence[object],
    *,
    deep: bool = False,
    limit: int = 4,
    frames: Iterable[FrameType] = (),
    collect: Iterable[type] = (),
    where: Where | None = None,
    budget: int = BUDGET,
    thread: int | None = None,
) -> Search:
    """Find who holds `targets`, all in one breadth-first pass; an object that Python does not hold gets no name.

    >>> import torch
    >>> weights = {"first": torch.ones(3)}
    >>> search([weights["first"]]).names[0][0].path
    "weights['first']"

    Looked at in turn, until all are found: `frames` (those of a traceback, for instance), the frames of all threads
    from the caller outwards, the user's modules, suspended generators that no variable holds, the frames that called
    the user's code, and with `deep` the library modules. `collect` asks for every live object of these types that the
    user's frames and modules lead to, `where` for those of them alone for which it is true, as a data set may hold half
    a million; it runs nothing of the user's.
    `limit` bounds the names of one target, `budget` the objects visited; `thread` is the identifier of the caller's,
    where this is another that looks on its behalf. Nothing of the user's is run, and nothing is kept alive but what
    `found` returns; at a `standstill`, until that ends.
    """
    targets, collect, frames = list(targets), tuple(collect), list(frames)
    together = shared() if not (frames or deep or thread) else None
    collecting = gc.isenabled()
    gc.disable()  # half the time of a walk otherwise, and no finalizer runs amid it
    try:
        with _torch.without_overrides():
            walk = together.walk if together is not None and not targets else None
            if walk is None:
                walk = Walk(targets, collect, deep, budget, where=where, gradients=not trains_elsewhere(thread))
                here = threading.get_ident() if thread is None else thread
                in_turn = stages(frames, deep, here) if together is None else together.stages()
                _explore(walk, in_turn, bool(collect), frames)
                if together is not None and collect and not targets and walk.complete and walk.whole:
                    together.walk = walk
            return _result(walk, targets, walk.collected(collect, where) if collect else [], limit)
    finally:
        if collecting:
            gc.enable()


def _explore(walk: Walk, in_turn: Iterable[list[Root]], collects: bool, frames: list[FrameType]) -> None:
    for stage, roots in enumerate(in_turn):
        to_the_end = collects and stage < _USER_STAGES
        if stage == _USER_STAGES:
            if walk.missing:
                walk.explore([frame_root(frame, None) for frame in suspended(frames)], to_the_end=False)
            walk.leave_the_program()
        if to_the_end or not walk.satisfied():
            walk.explore(roots, to_the_end)


def _result(walk: Walk, targets: list[object], found: list[int], limit: int) -> Search:
    at = [walk.index.get(id(target), -1) for target in targets]
    lineage = Lineage(walk, [each for each in (*at, *found) if each >= 0])
    names = tuple(lineage.names(each, limit) if each >= 0 else () for each in at)
    best = ((walk.objects[each], lineage.names(each, 1)) for each in found)
    return Search(names, tuple((found, name[0]) for found, name in best if name), walk.complete, len(walk.objects))
