"""BS140: stored data are changed in place where they are read: by `__getitem__`, through a batch, or as inputs grow."""

from __future__ import annotations

import ast
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import FrameType, FunctionType
from typing import Any

import torch
from torch.utils.data import Dataset

from backsight.diagnosis.amending import written
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import files_around
from backsight.diagnosis.wording import listed, numbered, shown, warning
from backsight.naming import search
from backsight.naming.plain import namespace
from backsight.naming.roots import is_library, is_ours
from backsight.source import Body, Place, function_at
from backsight.source.body import body_around, callee, calls_in, functions, statements
from backsight.source.changes import changed_where_read
from backsight.source.edits import OR
from backsight.source.out_of_place import out_of_place
from backsight.tape.saved import is_readable, memory
from backsight.tracing import Change

CODES = ("BS140",)

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
        function = next((vars(c)["__getitem__"] for c in type(each).__mro__ if "__getitem__" in vars(c)), None)
        body = function_at(function.__code__) if isinstance(function, FunctionType) else None
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
    """Return the finding that inputs change in size, if one statement of the program may be what changes them.

    sizes: the steps at which they were looked at, and the root of their mean square.
    """
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
