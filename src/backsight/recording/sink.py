"""From the training thread to the disk: a bounded queue, and a thread above the writer of the run."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from time import thread_time
from typing import Any

import torch

from backsight.recording.book import Book, Numbers
from backsight.recording.cost import Cost
from backsight.recording.page import Page
from backsight.recording.voice import Voice, told
from backsight.runs import RunError, RunWriter
from backsight.runs.unlisted import Unlisted

PAUSE = 0.2
"""Seconds between two looks at the queue: what a kill can cost. Steps are written many at a time, as one of them alone
costs the interpreter as much as ten."""

_Item = Callable[[Book], None] | tuple[int, Numbers]


class Sink:
    """Takes pages and notes without making the caller wait.

    When `capacity` pages are waiting, the oldest is dropped and counted. Notes (marks, events) are never dropped.
    """

    def __init__(self, writer: RunWriter, voice: Voice, cost: Cost, *, capacity: int = 512):
        self._book = Book(writer, voice)
        self._voice = voice
        self._cost = cost
        self._capacity = capacity
        self._queue: deque[Page | _Item] = deque()
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._pages = 0
        self._ending = False
        self._wake = threading.Event()
        self._thread: Unlisted | None = None
        self.taken = 0
        """Steps that were given to be written."""
        self.dropped = 0
        """Steps that were dropped because writing could not keep up."""
        self.failure: str | None = None
        """Why nothing is written any more, if so."""
        self.closed = False

    def page(self, page: Page) -> None:
        """Take the rows of a step."""
        with self._lock:
            if self._pages >= self._capacity:
                self._drop_oldest()
            self._pages += 1
            self.taken += 1
            self._put(page)
            if self._pages * 2 >= self._capacity:
                self._wake.set()
        if self.dropped:
            self._voice.say(
                "dropped",
                f"writing {self._book.path} does not keep up with the training: the oldest steps are dropped and "
                "counted in rec.dropped. Record fewer steps (every=...) or use a faster disk.",
            )

    def mark(self, step: int, tags: dict[str, Any]) -> None:
        """Take tags of a step; tensors among them become numbers later, so that nobody waits for their device."""
        held = {name: _kept(value) for name, value in tags.items()}
        with self._lock:
            self._put(lambda book: book.mark(step, held))

    def scalars(self, step: int, numbers: Numbers) -> None:
        """Take numbers of a step, each the mean of its values; a device is waited for later."""
        with self._lock:
            self._put((step, numbers))

    def event(self, event: str, *, step: int | None = None, **details: Any) -> None:
        """Take down what else happened."""
        with self._lock:
            self._put(lambda book: book.writer.event(event, step=step, **details))

    def tree(self, tree: Any) -> None:
        """Take the modules."""
        with self._lock:
            self._put(lambda book: book.writer.tree(tree))

    def graph(self, step: int, graph: Any) -> None:
        """Take the autograd graph of a step, as a document."""
        with self._lock:
            self._put(lambda book: book.writer.graph(step, graph))

    def memory(self, step: int, memory: Any) -> None:
        """Take the memory of a step, as a document."""
        with self._lock:
            self._put(lambda book: book.writer.memory(step, memory))

    def flush(self) -> None:
        """Write what is waiting, in the calling thread."""
        self._drain()

    def close(self) -> None:
        """Write what is waiting and close the run."""
        if self.closed:
            return
        self.closed = True
        self._ending = True
        self._wake.set()
        if self._thread is not None and not self._thread.current:
            self._thread.join()
        if self.dropped:
            self._queue.append(lambda book: book.writer.event("dropped", steps=self.dropped))
        self._drain()
        try:
            self._book.writer.close()
        except Exception as failure:  # at the end of a program, or of the recorder: never the training's failure
            self._fail(failure)

    def abandon(self) -> None:
        """Forget everything: this process was forked off the one that records."""
        self.closed = True
        self._queue = deque()
        self._thread = None
        self._lock, self._writing = threading.Lock(), threading.Lock()  # another thread may have held them at the fork

    def _put(self, item: Page | _Item) -> None:
        if self.closed or self.failure is not None:
            return
        self._queue.append(item)
        if self._thread is None:
            with suppress(RuntimeError):  # no more threads, as at the end of a program: `close` writes what waits
                self._thread = Unlisted(self._run)

    def _drop_oldest(self) -> None:
        for item in self._queue:
            if isinstance(item, Page):
                self._queue.remove(item)
                self._pages -= 1
                self.dropped += 1
                return

    def _run(self) -> None:
        while not self._ending:
            self._wake.wait(PAUSE)
            self._wake.clear()
            began = thread_time()
            self._drain()
            self._cost.spent += thread_time() - began  # it takes turns with the training's own thread

    def _drain(self) -> None:
        with self._writing:
            with self._lock:
                waiting, self._queue, self._pages = self._queue, deque(), 0
            if not waiting or self.failure is not None:
                return
            try:
                self._book.pages([item for item in waiting if isinstance(item, Page)])
                self._book.scalars(item for item in waiting if isinstance(item, tuple))
                for item in waiting:
                    if not isinstance(item, (Page, tuple)):
                        item(self._book)
                self._book.writer.flush()
            except Exception as failure:  # in a thread of ours there is nobody to raise to
                self._fail(failure)

    def _fail(self, failure: Exception) -> None:
        self.failure = str(failure) if isinstance(failure, RunError) else told(failure)
        with suppress(Exception):  # most likely for the same reason
            self._book.writer.event("broke off", why=self.failure)
        self._voice.say("sink", f"recording stopped; training continues without it: {self.failure}")


def _kept(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) and value.numel() <= 16 else value
