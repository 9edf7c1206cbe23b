"""What the frames of a trace say, checked: a file that was damaged, or made to do harm, is read as far as it goes."""

from __future__ import annotations

import base64
import io
import json
import struct
from collections.abc import Callable, Mapping
from math import prod
from typing import Any, get_args

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from backsight.traces.records import (
    PRINT,
    Held,
    Kind,
    Made,
    Operation,
    Phase,
    Place,
    Shard,
    Summary,
    Trace,
    Value,
    Variables,
)

_PHASES, _KINDS = get_args(Phase), get_args(Kind)
_LARGEST = 1 << 62
"""No number of a trace is as large: they count, or are places."""

_LONGEST = 1 << 26
"""Bytes of the JSON of a frame; a writer makes some megabytes at most."""


class Damaged(Exception):
    """A frame says what no writer of traces has said."""


class Reading:
    """What has been read so far.

    notes: what is missing, in sentences.
    """

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.head: Mapping[str, Any] = {}
        self._settings: dict[int, Mapping[str, Any]] = {}
        self._whole: list[int] = []
        self._prints: list[NDArray[np.void]] = []
        self._kept: dict[int, NDArray[Any]] = {}
        self._values: list[Value] = []
        self._operations: dict[int, Operation] = {}
        self._held: list[Held] = []
        self._shards: dict[int, Shard] = {}
        self._made: dict[int, Made] = {}
        self._variables: dict[str, str] = {}
        self._places: dict[tuple[Any, ...], Place] = {}
        self._summaries: dict[int, Summary] = {}
        self._summed_up = -1
        self._numbers: tuple[tuple[Mapping[str, Any], ...], ...] = ()

    def take(self, kind: bytes, payload: bytes) -> None:
        """Take a frame.

        Raises:
            Damaged: if it says what cannot be.
        """
        if kind == b"P":
            _need(len(payload) % PRINT.itemsize == 0)
            self._prints.append(np.frombuffer(payload, PRINT))
        elif kind == b"K":
            number, array = _array(payload)
            self._kept[number] = array
        else:
            _need(len(payload) <= _LONGEST)
            take = _TAKES.get(kind)
            if take is not None:  # else of a later backsight, which would have another magic if that mattered
                take(self, _content(payload))

    def trace(self, path: str, rank: int) -> Trace:
        """Return what was read as a trace."""
        prints = np.concatenate(self._prints) if self._prints else np.zeros(0, PRINT)
        sane = _sane(prints)
        values, known = self._values, len(self._values)
        operations = [each for each in self._operations.values() if max(each.inputs + each.outputs, default=-1) < known]
        steps = tuple(sorted(self._settings))
        notes = list(self.notes)
        if asked := [step for step in self.head.get("steps", ()) if step not in self._settings]:
            notes.append(f"ended before step {', '.join(map(str, asked))} began")
        if unfinished := [step for step in steps if step not in self._whole]:
            notes.append(f"step {', '.join(map(str, unfinished))} did not end")
        return Trace(
            path,
            rank,
            self.head,
            steps,
            tuple(self._whole),
            self._settings,
            tuple(operations),
            tuple(each if each.mark < 0 or sane[each.mark : each.mark + 1].any() else _unread(each) for each in values),
            tuple(each for each in self._held if each.value < known),
            prints,
            {
                mark: array
                for mark, array in self._kept.items()
                if mark < len(prints) and array.size == prints[mark]["stats"]["count"]
            },
            tuple(notes),
            self._shards,
            tuple(self._summaries.values()),
            self._made,
            Variables(self._variables),
        )

    def _begun(self, content: Any) -> None:
        _need(isinstance(content, dict) and isinstance(content.get("random state", {}), dict))
        self._settings[_whole(content.get("step"))] = content

    def _headed(self, content: Any) -> None:
        _need(isinstance(content, dict) and isinstance(content.get("steps", []), list))
        _need(isinstance(content.get("random state", {}), dict))
        for step in content.get("steps", ()):
            _whole(step)
        self.head = content

    def _valued(self, content: Any) -> None:
        for row in _rows(content, 6):
            shape, dtype, device, mark, maker, name = row
            _texts(dtype, device, name)
            sizes = tuple(map(_whole, _rows(shape)))
            _need(len(sizes) <= 64 and prod(sizes) < _LARGEST)
            value = Value(len(self._values), sizes, dtype, device, _whole(mark, -1), _whole(maker, -1), name)
            self._values.append(value)

    def _operated(self, content: Any) -> None:
        for number, step, phase, op, module, where, given, inputs, outputs, node, of in _rows(content, 11):
            _texts(op, module, node)
            _need(phase in _PHASES and isinstance(given, dict) and _whole(number) not in self._operations)
            taken, made = tuple(map(_whole, _rows(inputs))), tuple(map(_whole, _rows(outputs)))
            place = self._place(where)
            self._operations[number] = Operation(
                number, _whole(step), phase, op, module, place, given, taken, made, node, _whole(of, -1)
            )

    def _place(self, where: Any) -> Place:
        _need(isinstance(where, list) and len(where) == 4)
        file, line, function, text = where
        _texts(file, function, text)
        key = file, _whole(line), function, text
        return self._places.get(key) or self._places.setdefault(key, Place(*key))

    def _held_at(self, content: Any) -> None:
        for step, at, kind, name, value in _rows(content, 5):
            _texts(name)
            _need(at in ("start", "end") and kind in _KINDS)
            self._held.append(Held(_whole(step), at, kind, name, _whole(value)))

    def _sharded(self, content: Any) -> None:
        for number, shape, dimension, coordinate, parts in _rows(content, 5):
            sizes = tuple(map(_whole, _rows(shape)))
            _need(_whole(dimension, -1) < max(1, len(sizes)) and _whole(coordinate) < _whole(parts))
            self._shards[_whole(number)] = Shard(sizes, dimension, coordinate, parts)

    def _made_at(self, content: Any) -> None:
        for number, where, call, rounded in _rows(content, 4):
            _texts(call, rounded)
            self._made[_whole(number)] = Made(self._place(where), call, rounded)

    def _summed(self, content: Any) -> None:
        for step, changed, bits, grads, weights in _rows(content, 5):
            _texts(bits, grads, weights)
            _need(_whole(step) > self._summed_up)
            self._summed_up = step
            if changed is not None:
                held = [_rows(each) for each in _rows(changed)]
                _need(all(isinstance(group, dict) for each in held for group in each))
                self._numbers = tuple(map(tuple, held))
            self._summaries[step] = Summary(step, bits, self._numbers, _norms(grads), _norms(weights))

    def _called(self, content: Any) -> None:
        for path, variable in _rows(content, 2):
            _texts(path, variable)
            self._variables[path] = variable

    def _noted(self, content: Any) -> None:
        _texts(content)
        self.notes.append(content)

    def _ended(self, content: Any) -> None:
        _need(isinstance(content, dict))
        step, optimizers = _whole(content.get("step")), content.get("optimizers")
        _need(step in self._settings)
        for each in _rows(optimizers):
            _need(isinstance(each, dict) and isinstance(each.get("groups"), list))
            _texts(each.get("class"))
            _need(all(isinstance(group, dict) for group in each["groups"]))
            for members in _rows(each.get("members", [])):
                _texts(*_rows(members))
        self._whole.append(step)
        evaluating = _rows(content.get("evaluating", []))
        _texts(*evaluating)
        random = content.get("random state", {})
        _need(isinstance(random, dict))
        ended = {"optimizers": optimizers, "evaluating": evaluating, "random state at the end": random}
        self._settings[step] = {**self._settings[step], **ended}


_TAKES: dict[bytes, Callable[[Reading, Any], None]] = {
    b"H": Reading._headed,
    b"B": Reading._begun,
    b"V": Reading._valued,
    b"O": Reading._operated,
    b"S": Reading._held_at,
    b"D": Reading._sharded,
    b"M": Reading._made_at,
    b"L": Reading._summed,
    b"C": Reading._called,
    b"N": Reading._noted,
    b"E": Reading._ended,
}


def _need(sound: bool) -> None:
    if not sound:
        raise Damaged


def _texts(*given: Any) -> None:
    _need(all(type(each) is str for each in given))


def _whole(given: Any, least: int = 0) -> int:
    _need(type(given) is int and least <= given < _LARGEST)
    number: int = given
    return number


def _rows(given: Any, width: int | None = None) -> list[Any]:
    _need(type(given) is list)
    if width is not None:
        _need(all(type(each) is list and len(each) == width for each in given))
    rows: list[Any] = given
    return rows


def _content(payload: bytes) -> Any:
    try:
        return json.loads(payload)
    except (ValueError, RecursionError) as failure:
        raise Damaged from failure


def _norms(text: str) -> NDArray[np.float32]:
    try:
        packed = base64.b64decode(text, validate=True)
    except ValueError as failure:
        raise Damaged from failure
    _need(len(packed) % 4 == 0)
    return np.frombuffer(packed, np.float32)


def _array(payload: bytes) -> tuple[int, NDArray[Any]]:
    """Return a tensor that was kept, and the number of its fingerprint; nothing is taken on trust of what it says."""
    try:
        (number,) = struct.unpack_from("<q", payload)
        held = io.BytesIO(payload[8:])
        _need(npy.read_magic(held) == (1, 0))
        shape, turned, dtype = npy.read_array_header_1_0(held)
        _need(number >= 0 and not turned and dtype.kind in "fiub" and all(0 <= size < _LARGEST for size in shape))
        _need(len(payload) - 8 - held.tell() == prod(shape) * dtype.itemsize)
        return number, np.frombuffer(payload, dtype, prod(shape), 8 + held.tell()).reshape(shape)
    except Exception as failure:  # NumPy parses the head as Python, which may fail in any way
        raise Damaged from failure


def _sane(prints: NDArray[np.void]) -> NDArray[np.bool_]:
    """Return which fingerprints say what can be: no more zeros than elements."""
    stats = prints["stats"]
    sane = stats["count"] >= 0
    for name in ("zeros", "nans", "infs"):
        sane &= (stats[name] >= 0) & (stats[name] <= stats["count"])
    together: NDArray[np.bool_] = sane & (stats["nans"] <= stats["count"] - stats["infs"])
    return together


def _unread(value: Value) -> Value:
    return Value(value.number, value.shape, value.dtype, value.device, -1, value.maker, value.name)
