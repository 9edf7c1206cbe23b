"""Tags of steps as columns: of a million steps, where an object for each mark would take a gigabyte."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backsight.runs import files, lines
from backsight.runs.members import MARK, wrong

AT_ONCE = 4 << 20
"""Bytes of the file that are read at once."""

MOST_NAMES = 256
"""Names of tags that are kept apart; a program that makes up a name each step has no lines to show."""

MOST_WORDS = 4096
"""Values of a tag that is no number."""

Numbers = dict[str, tuple[NDArray[np.int64], NDArray[np.float64]]]
"""Numbers by name, as steps and values."""


@dataclass
class Tags:
    """What a rank tagged its steps with, of a file that may grow: numbers by name, and the others where they change."""

    path: Path
    size: int = 0
    damaged: int = 0
    torn: bool = False
    numbers: dict[str, tuple[array[int], array[float]]] = field(default_factory=dict)
    words: dict[str, list[tuple[int, Any]]] = field(default_factory=dict)
    turn: threading.Lock = field(default_factory=threading.Lock)

    def read(self) -> Tags:
        """Read on, and return this."""
        with self.turn:
            try:
                with files.opened(self.path) as file:
                    file.seek(self.size)
                    rest = b""
                    while data := file.read(AT_ONCE):
                        whole, newline, rest = (rest + data).rpartition(b"\n")
                        self._add(whole)
                        self.size += len(whole) + len(newline)
                    self.torn = bool(rest)
            except FileNotFoundError:  # nothing has been tagged yet
                pass
            return self

    def columns(self) -> Numbers:
        """Return the tags that are numbers."""
        with self.turn:  # an array cannot grow while numpy looks at it
            return {name: (np.array(at, "<i8"), np.array(held, "<f8")) for name, (at, held) in self.numbers.items()}

    def _add(self, whole: bytes) -> None:
        for line in whole.split(b"\n") if whole else []:
            try:
                held = lines.opened(line)
            except lines.BadLine:
                self.damaged += 1
                continue
            if wrong(held, MARK):
                self.damaged += 1
                continue
            for name, value in held["tags"].items():
                self._keep(held["step"], name, value)

    def _keep(self, step: int, name: str, value: Any) -> None:
        if type(value) is float or (type(value) is int and abs(value) < 1 << 1023):
            held = self.numbers.get(name)
            if held is None:
                if len(self.numbers) >= MOST_NAMES:
                    return
                held = self.numbers[name] = array("q"), array("d")
            held[0].append(step)
            held[1].append(value)
            return
        if name not in self.words and len(self.words) >= MOST_NAMES:
            return
        changes = self.words.setdefault(name, [])
        if len(changes) < MOST_WORDS and not (changes and changes[-1][1] == value):
            changes.append((step, value))


def numbers(parts: Iterable[Numbers]) -> Numbers:
    """Return each number as steps and values, in order; of one step what was said last, by the last part."""
    found: dict[str, list[tuple[NDArray[np.int64], NDArray[np.float64]]]] = {}
    for part in parts:
        for name, columns in part.items():
            found.setdefault(name, []).append(columns)
    return {name: _in_order(parts) for name, parts in found.items()}


def words(ranks: Iterable[Tags]) -> dict[str, list[tuple[int, Any]]]:
    """Return each tag that is no number, where it changes."""
    found: dict[str, list[tuple[int, Any]]] = {}
    for tags in ranks:
        with tags.turn:
            for name, changes in tags.words.items():
                found.setdefault(name, []).extend(changes)
    for name, changes in found.items():
        changes.sort(key=lambda change: change[0])
        found[name] = [each for k, each in enumerate(changes) if not k or changes[k - 1][1] != each[1]]
    return found


def _in_order(
    parts: list[tuple[NDArray[np.int64], NDArray[np.float64]]],
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    steps, values = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    if (steps[1:] > steps[:-1]).all():
        return steps, values
    order = np.argsort(steps, kind="stable")
    steps, values = steps[order], values[order]
    last = np.append(steps[1:] != steps[:-1], True)
    return steps[last], values[last]
