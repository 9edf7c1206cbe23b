"""What is known of objects, for as long as they are alive.

Note [No Python when something dies]
    Python swallows what is raised while a weak reference's callback runs, or a `__del__`: it prints "Exception ignored
    in", and goes on. A handler of a signal may raise at any instruction of a function of ours: a time limit or Ctrl-C
    that struck there would be lost. So nothing of ours that is written in Python may run when an object of the program
    dies. A method of a `deque`, which is written in C, puts the reference on a list of the dead, and their entries are
    dropped when something is noted the next time. (The remove functions of `WeakKeyDictionary` and its like, and
    `weakref.finalize`, are written in Python.)
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

V = TypeVar("V")


class _Ref(weakref.ref[Any]):
    __slots__ = ("key",)
    key: int


class Living(Generic[V]):
    """Values by key, each of an object; an entry counts for nothing once its object is gone.

    Each `put` first drops the entries of the dead; `buried` is then told of each, by its key and value.
    """

    __slots__ = ("_buried", "_dead", "_entries")

    def __init__(self, buried: Callable[[int, V], None] | None = None) -> None:
        self._buried = buried
        self._entries: dict[int, tuple[_Ref, V]] = {}
        self._dead: deque[Any] = deque()

    def put(self, key: int, held: object, value: V) -> None:
        """Note `value` of the object `held`, under `key`, in place of what was there."""
        self.bury()
        ref = _Ref(held, self._dead.append)
        ref.key = key
        self._entries[key] = ref, value

    def of(self, held: object) -> V | None:
        """Return what is noted of an object under its `id`; None if nothing is."""
        entry = self._entries.get(id(held))
        return entry[1] if entry is not None and entry[0]() is held else None

    def at(self, key: int) -> V | None:
        """Return what is noted under a key of an object that is alive."""
        entry = self._entries.get(key)
        return entry[1] if entry is not None and entry[0]() is not None else None

    def held(self, key: int) -> Any:
        """Return the object of a key, if it is alive."""
        entry = self._entries.get(key)
        return entry[0]() if entry is not None else None

    def drop(self, key: int) -> V | None:
        """Forget a key; return what was noted under it."""
        entry = self._entries.pop(key, None)
        return entry[1] if entry is not None else None

    def bury(self) -> None:
        """Drop the entries of objects that are gone, unless their keys have gone to others since."""
        dead, entries = self._dead, self._entries
        while dead:
            try:
                ref = dead.popleft()
            except IndexError:  # another thread was faster
                return
            entry = entries.get(ref.key)
            if entry is not None and entry[0] is ref:
                entries.pop(ref.key, None)
                if self._buried is not None:
                    self._buried(ref.key, entry[1])

    def items(self) -> Iterator[tuple[int, V]]:
        """Yield the keys of objects that are alive, and what is noted of them."""
        self.bury()
        for key, (ref, value) in list(self._entries.items()):
            if ref() is not None:
                yield key, value

    def __len__(self) -> int:
        self.bury()
        return len(self._entries)

    def __bool__(self) -> bool:
        if self._dead:
            self.bury()
        return bool(self._entries)
