"""Answers that are kept as long as the files of their run are as they were."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from backsight.runs import Run
from backsight.tables.listing import files
from backsight.viewer.question import Answer

MOST = 8
"""Answers that are kept, the last ones that were asked for: a picture of very many tensors takes 7 MB."""

Key = tuple[int, str, tuple[tuple[str, str], ...]]


@dataclass
class _Held:
    turn: threading.Lock = field(default_factory=threading.Lock)
    state: object = None
    answer: Answer | None = None


class Kept:
    """The answers that were given last, of runs that have ended. Who asks while another finds the same waits for it."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._numbers: WeakKeyDictionary[Run, int] = WeakKeyDictionary()
        self._count = 0
        self._held: OrderedDict[Key, _Held] = OrderedDict()

    def answer(self, run: Run, question: str, given: Mapping[str, str], find: Callable[[], Answer]) -> Answer:
        """Return what `find` returns, or has returned when nothing of the run was different."""
        size, written, is_open = files(run.path)
        if is_open:
            return find()
        state = size, written, run.damage
        held = self._place(run, question, given)
        with held.turn:
            if held.answer is None or held.state != state:
                held.answer, held.state = find(), state
            return held.answer

    def _place(self, run: Run, question: str, given: Mapping[str, str]) -> _Held:
        with self._turn:
            if run not in self._numbers:  # not its id, which another may get
                self._numbers[run] = self._count = self._count + 1
            key = self._numbers[run], question, tuple(sorted(given.items()))
            held = self._held.setdefault(key, _Held())
            self._held.move_to_end(key)
            while len(self._held) > MOST:
                self._held.popitem(last=False)
            return held
