"""Notice that the program has imported torch, without importing it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_OURS = "backsight."


def when_imported(name: str, then: Callable[[], None]) -> None:
    """Call `then` once the top-level module `name` has been imported; at once if it has been already.

    Where a room of ours imports it, which the program has imported, `then` waits for that room: it may need it.

    An entry in `sys.meta_path`, Python's own mechanism for this (PEP 302, PEP 451), which removes itself.
    """
    if name in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, _Finder(name, then))


class _Finder(MetaPathFinder):
    """Stays in place until the module has run: many only ask whether it is there, by `importlib.util.find_spec`."""

    def __init__(self, name: str, then: Callable[[], None]):
        self.name, self.then = name, then
        self._asking = threading.local()
        self._has_run = False
        self._running = 0  # of this module and of our rooms, how many are being imported

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.name and not fullname.startswith(_OURS):
            return None
        if getattr(self._asking, "others", False):  # who asks all finders asks this one again
            return None
        place = sys.meta_path.index(self) + 1 if self in sys.meta_path else 0
        others = [finder for finder in sys.meta_path[place:] if hasattr(finder, "find_spec")]
        self._asking.others = True
        try:
            found = (finder.find_spec(fullname, path, target) for finder in others)
            spec = next((each for each in found if each is not None), None)
        finally:
            self._asking.others = False
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, self)
        return spec

    @contextmanager
    def running(self, name: str) -> Iterator[None]:
        """Surrounds the run of a module; told when it has run."""
        self._running += 1
        try:
            yield
            self._has_run |= name == self.name
        finally:
            self._running -= 1
        if self._has_run and not self._running and self in sys.meta_path:
            sys.meta_path.remove(self)
            self.then()


class _Loader(Loader):
    """Loads the module with its own loader, gives that back to it, and then tells."""

    def __init__(self, loader: Loader, finder: _Finder):
        self.loader, self.finder = loader, finder

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self.loader
        if module.__spec__ is not None:
            module.__spec__.loader = self.loader
        with self.finder.running(module.__name__):
            self.loader.exec_module(module)

    def __getattr__(self, name: str) -> Any:
        """Answer as the module's own loader would to whoever has only looked for the module (`get_filename`)."""
        return getattr(self.loader, name)
