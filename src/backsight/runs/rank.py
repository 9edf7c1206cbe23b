"""What one rank has written, read as far as it goes; asked again, read on."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from backsight.runs import files, lines, members, places
from backsight.runs.coarse import in_window, parts_of_a_whole, together
from backsight.runs.errors import DamagedRun, NewerRun, NotARun
from backsight.runs.members import Members
from backsight.runs.ordering import newest
from backsight.runs.places import SegmentName
from backsight.runs.schema import MOST, Columns, joined
from backsight.runs.segments import ALL_STEPS, SORT_KEYS, Live, Sorted, Window, segment, within
from backsight.runs.tags import MOST_NAMES, Numbers, Tags

_ATTEMPTS = 9  # a segment may be sorted or merged, and what it was made of removed, between looking and opening

T = TypeVar("T")


@dataclass(frozen=True)
class Damage:
    """What reading a run has skipped so far: `torn` is what a kill, or a write in progress, leaves at an end."""

    blocks: int = 0
    lines: int = 0
    torn: int = 0

    def __add__(self, other: Damage) -> Damage:
        return Damage(self.blocks + other.blocks, self.lines + other.lines, self.torn + other.torn)


@dataclass(frozen=True)
class Document:
    """What a file holds as one object, of which step it is, and what tells that it is still the same file."""

    step: int
    held: Any
    stamp: tuple[int, int, int]


@dataclass
class Growing:
    """A JSONL file that may grow, and what has been read of it."""

    path: Path
    members: Members
    alike: lines.Alike = field(default_factory=lines.Alike)
    held: lines.Lines = field(default_factory=lines.Lines)
    seen: int = 0
    """How many bytes the file had: a file of lines only grows."""
    turn: threading.Lock = field(default_factory=threading.Lock)

    def read(self) -> list[dict[str, Any]]:
        """Return the objects of all whole lines.

        Raises:
            DamagedRun: if there is something that is no file, or may not be read.
        """
        with self.turn:
            try:
                if self.seen and os.stat(self.path).st_size == self.seen:
                    return self.held.objects[:]
                with files.opened(self.path) as file:
                    file.seek(self.held.size)
                    data = file.readall()
            except FileNotFoundError:  # nothing of this sort has been written yet
                return []
            before = self.held.size
            new = lines.read(data, self.members, before) if before else self.alike.read(data, self.members)
            self.seen = before + len(data)
            self.held.objects += new.objects
            self.held.damaged += new.damaged
            self.held.size += new.size
            self.held.torn = new.torn
            return self.held.objects[:]


class Rank:
    """The folder of one rank.

    Raises:
        NewerRun: if it was written in a later format.
        DamagedRun: if its manifest is damaged, without which nothing is known of the rest.
    """

    def __init__(self, number: int, folder: Path, alike: tuple[lines.Alike, lines.Alike] | None = None):
        self.number = number
        self.folder = folder
        self.manifest = _manifest(folder)
        tensors, metrics = alike or (lines.Alike(), lines.Alike())
        self.tensors = Growing(folder / places.TENSORS, members.TENSOR, tensors)
        self.metrics = Growing(folder / places.METRICS, members.METRIC, metrics)
        self.marks = Growing(folder / places.MARKS, members.MARK)
        self.tags = Tags(folder / places.MARKS)
        self.numbers = Growing(folder / places.NUMBERS, members.NUMBER)
        self._earlier = Tags(folder / places.SCALARS)
        self.events = Growing(folder / places.EVENTS, members.EVENT)
        self._segments: dict[str, Live | Sorted] = {}
        self._turn = threading.RLock()
        self._reach = -1
        self._missing = 0
        self._undefined: set[int] = set()

    def undefined(self, numbers: Iterable[int]) -> None:
        """Note that there are rows of tensors with these numbers, but no line that says what they are."""
        self._undefined.update(numbers)

    @property
    def tree(self) -> Any:
        """The modules as they were stored last; None if they were not, or are damaged."""
        try:
            return members.modules(lines.opened(files.content(self.folder / places.TREE)).get("tree"))
        except (FileNotFoundError, DamagedRun, lines.BadLine):
            return None

    def document(self, name: str) -> Document | None:
        """Return what is stored as one object, `graph.json` or `memory.json`; None if nothing is.

        Raises:
            DamagedRun: if it is damaged, or too large to have been written by a recording.
        """
        path = self.folder / name
        try:
            found = path.stat()
            held = lines.opened(files.content(path))
            step = held.get("step")
            if type(step) is not int or not 0 <= step < MOST:
                raise DamagedRun(f"{path} is damaged: it does not say which step it is from.")
        except FileNotFoundError:
            return None
        except lines.BadLine as error:
            raise DamagedRun(f"{path} is damaged: {error}.") from None
        return Document(step, held.get(path.stem), (found.st_mtime_ns, found.st_size, found.st_ino))

    @property
    def damage(self) -> Damage:
        """What has been skipped so far."""
        held = [growing.held for growing in (self.tensors, self.metrics, self.numbers, self.marks, self.events)]
        segments = list(self._segments.values())
        if self._undefined:  # or rows came between reading the lines and reading the rows
            self._undefined -= {each["id"] for each in self.tensors.read()}
        cut_off = max(0, len(self._undefined) - self.tensors.held.damaged)
        return Damage(
            self._missing + sum(segment.damaged for segment in segments),
            sum(each.damaged for each in held)
            + max(0, self.tags.damaged - self.marks.held.damaged)
            + self._earlier.damaged
            + cut_off,
            sum(segment.torn > 0 for segment in segments) + sum(each.torn for each in held),
        )

    def table(
        self,
        name: str,
        tensors: NDArray[np.int64] | None = None,
        window: Window = ALL_STEPS,
        wanted: Callable[[Columns], Columns] = lambda rows: rows,
    ) -> Columns:
        """Return the rows of a table for these tensors (all, if None) and steps, each key once.

        wanted: what to keep of the rows of a block, by their steps; the others are never in memory all at once.
        """
        parts = self._reading(lambda segment: [wanted(rows) for rows in segment.parts(name, tensors, window)])
        return newest(joined(name, [rows for part in parts for rows in part]), SORT_KEYS[name])

    def coarse(self, stretch: int, window: Window = ALL_STEPS, tensors: NDArray[np.int64] | None = None) -> Columns:
        """Return the rows over stretches of so many steps that touch these steps; `coarse.py` has the stretches."""
        several = parts_of_a_whole(self.tensors.read())

        def wanted(part: Live | Sorted) -> Columns:
            return within(in_window(part.coarse(stretch, several, window), *window), tensors, ALL_STEPS)

        return together(self._reading(wanted))

    def scalars(self) -> Numbers:
        """Return the numbers of steps that are about no tensor, and were not tagged."""
        rows, found = self.table("N"), self._earlier.read().columns()
        ends = np.flatnonzero(np.diff(rows["tensor"], append=-1)) + 1
        held = {line["id"]: line["name"] for line in self.numbers.read()[:MOST_NAMES]}
        for start, end in zip([0, *ends[:-1].tolist()], ends.tolist(), strict=False):
            if (name := held.get(int(rows["tensor"][start]))) is not None:
                found[name] = rows["step"][start:end], rows["value"][start:end]
        return found

    def last_step(self) -> int | None:
        """Return the newest step that has rows."""
        return max((last for last in self._reading(lambda segment: segment.last) if last is not None), default=None)

    def nonfinite_steps(self) -> list[int]:
        """Return steps in which something is not finite: of each tensor in each segment the first."""
        return sorted({step for steps in self._reading(lambda segment: segment.nonfinite) for step in steps})

    def _reading(self, answer: Callable[[Live | Sorted], T]) -> list[T]:
        """Return the answer of every segment; where one is replaced meanwhile, that of what it is in now."""
        with self._turn:
            return self._answers(answer)

    def _answers(self, answer: Callable[[Live | Sorted], T]) -> list[T]:
        names, failures = self._listed(), 0
        answers: dict[SegmentName, T] = {}
        while len(answers) < len(names):
            name = names[len(answers)]
            try:
                each = self._segments.get(name.text) or segment(self.folder / name.text)
                self._segments[name.text] = each
                each.refresh()
                answers[name] = answer(each)
                failures = 0
            except FileNotFoundError:
                failures += 1
                if failures > _ATTEMPTS:
                    raise DamagedRun(f"{self.folder / name.text} is gone. Was the run removed?") from None
                self._segments.pop(name.text, None)
                names = self._listed()
                still = takewhile(lambda pair: pair[0] == pair[1], zip(list(answers), names, strict=False))
                answers = {known: answers[known] for known, _ in still}
        self._segments = {name.text: self._segments[name.text] for name in names}
        return list(answers.values())

    def _listed(self) -> list[SegmentName]:
        """Return the names; a listing with a gap, as a replacement may leave in one, is not believed at once."""
        for _ in range(_ATTEMPTS):
            names = places.segments_in(self.folder)
            ends = [-1, *(name.last for name in names)]
            self._missing = sum(name.first != end + 1 for name, end in zip(names, ends, strict=False))
            if not self._missing and ends[-1] >= self._reach:
                break
        self._reach = max(ends[-1], self._reach)
        return names


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / places.MANIFEST
    try:
        held = lines.opened(files.content(path))
    except FileNotFoundError:
        raise NotARun(f"{folder} has no {places.MANIFEST}, so it is not a recording.") from None
    except lines.BadLine as error:
        raise DamagedRun(
            f"{path} is damaged ({error}), and without it the rank cannot be read. Restore it from a backup."
        ) from None
    if held.get("format") != places.FORMAT:
        raise NotARun(f"{path} does not say that this is a run of backsight.")
    version = held.get("version")
    if type(version) is int and version > places.VERSION:  # what else it holds is for that version to say
        raise NewerRun(
            f"{path} has format {version}, but this backsight reads up to {places.VERSION}. Upgrade it: pip install "
            "--upgrade backsight."
        )
    if (member := members.wrong(held, members.MANIFEST)) is not None:
        raise DamagedRun(
            f"{path} is damaged: its {member!r} is invalid, and without it the rank cannot be read. Restore it from a "
            "backup."
        )
    return held
