"""BS140, BS148: stored data are changed in place where they are read, and stored arrays are overwritten."""

from __future__ import annotations

import ast
import sys
import weakref
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import torch
from torch.utils.data import Dataset

from backsight.diagnosis.amending import written
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import ending, files_around, method_of, statements_around
from backsight.diagnosis.wording import if_known, listed, numbered, shown, warning
from backsight.naming import search
from backsight.naming.plain import namespace
from backsight.naming.roots import is_library, is_ours
from backsight.source import Body, Place, function_at, only
from backsight.source.body import body_around, callee, calls_in, dotted, functions, statements
from backsight.source.changes import changed_where_read
from backsight.source.edits import OR
from backsight.source.out_of_place import out_of_place
from backsight.story.failure import method
from backsight.tape import grad_fn
from backsight.tape.saved import is_readable, memory
from backsight.tracing import Change

_VALUES = 64
"""Values of an array that are compared: spread over all of it."""

_MOST = 8


@dataclass
class Stored:
    """An array that a data set holds, and the one statement that may change it in place as it is read."""

    dataset: weakref.ref[Any]
    name: str
    attribute: str
    place: Place
    was: tuple[object, ...] = field(default=())

    def has_changed(self) -> bool:
        """Whether its values are others than at the last look; what was replaced by another array begins anew."""
        dataset = self.dataset()
        held = (namespace(dataset) or {}).get(self.attribute) if dataset is not None else None
        before, self.was = self.was, mark(held)
        return bool(before) and before[:1] == self.was[:1] and before != self.was


def stored() -> list[Stored]:
    """Return the arrays of data sets of the program's, each with what may change it, of which most have nothing."""
    found: list[Stored] = []
    for each, name in search((), collect=(Dataset,)).found:
        function = method(type(each), "__getitem__")
        body = function_at(function.__code__) if function is not None else None
        if body is None or is_library(body.file) or is_ours(body.file):
            continue
        places, read = list(dict.fromkeys(_changes(body))), _attributes(body)
        for attribute, value in list((namespace(each) or {}).items()) if len(places) == 1 else ():
            if attribute in read and (at_first := mark(value)) and len(found) < _MOST:
                found.append(Stored(weakref.ref(each), name.path, attribute, places[0], at_first))
    return found


def changed_data(found: Stored, since: int) -> Finding:
    """Return the finding that such an array goes on changing."""
    name = f"{found.name}.{found.attribute}"
    return warning(
        "BS140",
        f"{name} changes while it is read: what it returns depends on how often it was read before.",
        (
            f"Its stored values had changed at every check up to step {numbered(since)}.",
            shown(found.place, "modifies the stored values themselves: an item of an array or tensor is a view of it."),
        ),
        f"Modify a copy: take self.{found.attribute}[...].copy(), or .clone() of a tensor. Or create a new one "
        "there, as x = x + noise does.",
        found.place,
        since=since,
    )


def mark(value: Any) -> tuple[object, ...]:
    """Return where an array lies, and some of its values; nothing of what is no array of numbers in memory."""
    if type(value) is torch.Tensor:
        if not is_readable(value) or value.device.type != "cpu" or value.layout != torch.strided or not value.numel():
            return ()
        flat = value.detach().reshape(-1) if value.is_contiguous() else None
        if flat is None or value.is_complex():
            return ()
        step = max(1, flat.numel() // _VALUES)
        return (value.data_ptr(), tuple(flat[::step].tolist()))
    if type(value).__module__ != "numpy" or type(value).__name__ != "ndarray" or value.dtype.kind not in "fiu":
        return ()
    if not value.flags.c_contiguous or not value.size:
        return ()
    flat = value.reshape(-1)
    return (value.ctypes.data, flat[:: max(1, flat.size // _VALUES)].tobytes())


def _changes(read: Body) -> list[Place]:
    """Return the statements that may change stored items in a `__getitem__`, or in what it calls."""
    places = set(changed_where_read(read.file))
    called = {callee(call)[1] for s in statements(read.node) for call in calls_in(s)}
    bodies = [read, *(b for b in functions(read.file) if b.name in called)]
    return [place for body in bodies for s in statements(body.node) if (place := body.place(s)) in places]


def _attributes(body: Body) -> set[str]:
    """Return the attributes of `self` of which a function takes an item."""
    return {
        node.value.attr
        for node in ast.walk(body.node)
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Attribute)
        and isinstance(node.value.value, ast.Name)
        and node.value.value.id == "self"
    }


_ARITHMETIC = frozenset({"add_", "sub_", "mul_", "div_", "__iadd__", "__isub__", "__imul__", "__itruediv__"})
"""What is done to values that are there. What writes others into a memory, as a replay memory is filled, is meant."""


def changed_batch(batch: torch.Tensor, changes: Sequence[Change], since: int) -> Finding | None:
    """Return the finding that rows of stored data are changed in place, some of them more than once.

    A batch that is the whole of what is stored may be a state that moves; rows that are taken one after the other are
    data.
    """
    if not changes or any(each.kind != "in place" or each.op not in _ARITHMETIC for each in changes):
        return None
    key, stored, own = memory(batch)
    lines = {each.line for each in changes}
    times = sum(each.count for each in changes)
    line = next(iter(lines))
    if len(lines) != 1 or line is None or times * own <= stored:
        return None
    held = [
        (each, name.path)
        for each, name in search((), collect=(torch.Tensor,)).found
        if isinstance(each, torch.Tensor) and memory(each)[0] == key and each.numel() > batch.numel()
    ]
    name = max(held, key=lambda each: each[0].numel())[1] if held else "The stored data"
    return warning(
        "BS140",
        f"{name} changes while it is read: what it returns depends on how often it was read before.",
        (
            f"The batches are slices of it, which share its memory. They were changed in place {times} times: each "
            "row more than once.",
            shown(line, "modifies the stored values themselves."),
        ),
        f"Create a new tensor there, as x = x + noise does{_anew(line.place)}: without the underscore in add_(), or "
        "with x.clone() first.",
        line,
        since=since,
    )


def _anew(place: Place) -> str:
    """Make a new tensor where a variable is changed in place."""
    new = out_of_place(body_around(place.file, place.line), place.line)
    return written(place, new) if new and new.partition(" = ")[0].isidentifier() else ""


def growing(model: str, sizes: Sequence[tuple[int, float]], frame: FrameType) -> Finding | None:
    """Return the finding that inputs change in size, by step and RMS, if one statement may be what changes them."""
    found = [place for file in files_around(frame) for place in changed_where_read(file)]
    if len(found) != 1:
        return None
    (first, before), (last, after) = sizes[0], sizes[-1]
    grows = after > before
    factor = after / before if grows else before / after
    steps = listed([f"{size:.3g} at step {numbered(step)}" for step, size in sizes])
    return warning(
        "BS140",
        f"The input of {model} {'grows' if grows else 'shrinks'}: it is {factor:.3g} times as "
        f"{'large' if grows else 'small'} at step {numbered(last)} as at step {numbered(first)}.",
        (
            f"The RMS of its inputs is {steps}.",
            shown(found[0], "modifies stored data in place each time it is read.", "read"),
        ),
        f"Create a new tensor there, as x = (x - mean) / std does{_anew(found[0])}. {OR}Or modify a copy of the stored "
        "data.",
        found[0],
        exact=False,
        since=first,
    )


# BS148: a replay memory whose items are one array, which the program goes on overwriting.


_FEWEST = 32
"""Items of a container that is looked at."""

_NEWEST = 256
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
    """Whether an attribute has the memory of what is stored, and a statement writes into it, or did."""
    last = ending(_owner(found))
    goals = (
        goal.value
        for body, each in statements_around(frame)
        for target in (each.targets if isinstance(each, ast.Assign) else [getattr(each, "target", None)])
        for goal in (target.elts if isinstance(target, ast.Tuple) else [target])
        if isinstance(goal, ast.Subscript) and isinstance(each, ast.Assign | ast.AugAssign)
    )
    return bool(last) and any("." in (name := dotted(goal) or "") and ending(name) == last for goal in goals)


def overwritten(found: Replay, since: int, frame: FrameType) -> Finding:
    """Return the finding that what such a container has stored is overwritten."""
    last = ending(found.name)
    places = [
        body.place(statement)
        for body, statement in statements_around(frame)
        if any(method_of(call)[0] == last and method_of(call)[1] in _STORES for call in calls_in(statement))
    ]
    place = only(set(places))
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
    return [held[at] for at in range(max(0, len(held) - _NEWEST), len(held))]


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
