"""BS148: a replay memory whose items are one array, which the program goes on overwriting."""

from __future__ import annotations

import ast
import sys
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch

from backsight.diagnosis.data_changed import mark
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import method_of, statements_around
from backsight.diagnosis.wording import if_known, warning
from backsight.naming import search
from backsight.naming.plain import namespace
from backsight.source import Place
from backsight.source.body import calls_in, dotted
from backsight.tape import grad_fn

CODES = ("BS148",)

_FEWEST = 32
"""Items of a container that is looked at."""

_MOST = 256
"""Items of one that are read: the newest."""

_SHARE = 0.9
_STORES = frozenset({"append", "appendleft", "add", "insert", "put"})


@dataclass
class Replay:
    """A container most of whose items hold the same memory twice, as a state and the next one, which others hold too.

    `array` is that of its newest item, and `was` the values that it had then. `twice` is 0 where the items are arrays
    themselves, most of which share their memory with others.
    """

    held: int
    name: str
    array: weakref.ref[Any]
    was: tuple[object, ...]
    items: int
    twice: int
    arrays: int

    @property
    def has_changed(self) -> bool:
        """Whether the array has other values now, where it was."""
        array = self.array()
        now = mark(array) if array is not None else ()
        return bool(now) and now[:1] == self.was[:1] and now != self.was

    def is_stored(self) -> bool:
        """Whether the container has it still."""
        array = self.array()
        return any(
            id(each) == self.held and any(value is array for item in _newest(each) for value in _arrays(item))
            for each, _ in _containers()
        )


def replays() -> list[Replay]:
    """Return such containers, of which most programs have none."""
    found: list[Replay] = []
    for each, name in _containers():
        newest = _newest(each)
        if newest and all(map(_is_data, newest)):
            found += _of_arrays(each, name, newest)
            continue
        pairs = [_twice(item) for item in newest]
        kept = [pair for pair in pairs if pair is not None]
        memories = {mark(array)[0] for array in kept}
        if kept and len(kept) >= _SHARE * len(pairs) and 2 * len(memories) <= len(kept) and pairs[-1] is not None:
            last, was = weakref.ref(kept[-1]), mark(kept[-1])
            found.append(Replay(id(each), name, last, was, len(pairs), len(kept), len(memories)))
    return found


def _of_arrays(held: Sequence[Any], name: str, newest: list[Any]) -> Iterator[Replay]:
    marks = [mark(each) for each in newest]
    memories = {each[0] for each in marks if each}
    if all(marks) and 2 * len(memories) <= len(newest):
        yield Replay(id(held), name, weakref.ref(newest[-1]), marks[-1], len(newest), 0, len(memories))


def is_overwritten(found: Replay, frame: FrameType | None) -> bool:
    """Whether an attribute has the memory of what is stored, into which a statement of the program writes.

    So it was even if nothing is written anymore, as after all experience was collected.
    """
    last = _owner(found).split(".")[-1]
    goals = (
        goal.value
        for body, each in statements_around(frame)
        for target in (each.targets if isinstance(each, ast.Assign) else [getattr(each, "target", None)])
        for goal in (target.elts if isinstance(target, ast.Tuple) else [target])
        if isinstance(goal, ast.Subscript) and isinstance(each, ast.Assign | ast.AugAssign)
    )
    return bool(last) and any("." in (dotted(goal) or "") and dotted(goal).split(".")[-1] == last for goal in goals)  # type: ignore[union-attr]


def overwritten(found: Replay, since: int, frame: FrameType) -> Finding:
    """Return the finding that what such a container has stored is overwritten."""
    last = found.name.split(".")[-1]
    places = [
        body.place(statement)
        for body, statement in statements_around(frame)
        if any(method_of(call)[0] == last and method_of(call)[1] in _STORES for call in calls_in(statement))
    ]
    place: Place | None = places[0] if len(set(places)) == 1 else None
    owner = _owner(found)
    return warning(
        "BS148",
        f"{found.name} stores the same array again and again, and its values are overwritten.",
        (
            _told(found),
            f"{owner} has that memory: what changes it in place changes the stored items." if owner else None,
            if_known(place, "stores the arrays themselves, not copies."),
        ),
        f"Store copies: {f'{owner}.copy()' if owner else 'state.copy()'} where the state is handed out, or .clone() of "
        "a tensor. torch.from_numpy shares the memory of its array.",
        place,
        since=since,
    )


def _told(found: Replay) -> str:
    arrays = f"{found.arrays:,} array{'s' * (found.arrays != 1)}"
    if not found.twice:
        return f"Its newest {found.items:,} items share {arrays}."
    return (
        f"Of its newest {found.items:,} items, {found.twice:,} have the same memory as state and as next state, "
        f"and all share {arrays}. One of them has changed since it was stored."
    )


def _containers() -> Iterator[tuple[Sequence[Any], str]]:
    for each, name in search((), collect=(deque, list), where=_is_long).found:
        yield each, name.path  # type: ignore[misc]


def _is_long(held: Any) -> bool:
    return type(held) in (deque, list) and len(held) >= _FEWEST


def _newest(held: Sequence[Any]) -> list[Any]:
    return [held[at] for at in range(max(0, len(held) - _MOST), len(held))]


def _arrays(item: Any) -> list[Any]:
    """Return the arrays in a tuple, a dict or the attributes of an object."""
    if isinstance(item, tuple | list):
        values: list[Any] = list(item[:8])
    else:
        values = list((item if type(item) is dict else namespace(item) or {}).values())[:8]
    return [each for each in values if _is_data(each)]


def _is_data(value: Any) -> bool:
    if type(value) is torch.Tensor:
        return not value.requires_grad and grad_fn(value) is None
    return type(value).__module__ == "numpy" and type(value).__name__ == "ndarray"


def _twice(item: Any) -> Any:
    """Return an array of an item whose memory another entry has too."""
    seen: dict[object, Any] = {}
    for each in _arrays(item):
        place = next(iter(mark(each)), None)
        if place is not None and place in seen:
            return each
        seen[place] = each
    return None


def _owner(found: Replay) -> str:
    """Return the attribute outside of the container that holds the array's memory."""
    numpy = sys.modules.get("numpy")
    kinds = (torch.Tensor, numpy.ndarray) if numpy is not None else (torch.Tensor,)
    same = [each for each, _ in search((), collect=kinds, where=lambda each: mark(each)[:1] == found.was[:1]).found]
    paths = (name.path for names in search(same, limit=8).names for name in names)
    return next((path for path in paths if "." in path and "[" not in path), "")
