"""Modules that a process has imported beforehand, and that nevertheless arrive when its program imports them.

```python
Held(imported("numpy", "torch")).hold()  # from here on neither is there
import torch  # the import system asks every finder; the module that it gets has run already
```

So an import costs nothing, while whoever stands in `sys.meta_path` sees it happen, and `sys.modules` has what it would
have. What came of the standard library stays: half of it is the interpreter's own.
"""

from __future__ import annotations

import atexit
import importlib
import sys
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any


@dataclass
class Arrival:
    """What the import of a module has brought: other modules, and what it wants called as the process ends."""

    name: str
    modules: dict[str, ModuleType]
    at_exit: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]]
    packages: dict[str, ModuleType] = field(default_factory=dict)
    """Where a module was an attribute of a package that had come earlier, as `torch._dynamo` is one of torch."""

    def hold(self, earlier: dict[str, ModuleType]) -> None:
        for name, module in self.modules.items():
            del sys.modules[name]
            package, _, attribute = name.rpartition(".")
            if package in earlier and vars(earlier[package]).get(attribute) is module:
                self.packages[name] = earlier[package]
                delattr(earlier[package], attribute)

    def give_back(self, names: Iterable[str]) -> None:
        for name in names:
            module = self.modules.pop(name)
            if name == "__mp_main__":  # where multiprocessing keeps the program for processes that it spawns
                module = sys.modules["__main__"]
            # A program may have said already that there is none.
            if sys.modules.setdefault(name, module) is module and name in self.packages:
                setattr(self.packages[name], name.rpartition(".")[2], module)

    def end(self) -> None:
        """Have what is called at the end called before what the program has asked for until now."""
        for call, given, named in self.at_exit:
            if call == weakref.finalize._exitfunc:  # once a process, from its first finalizer on
                if weakref.finalize._registered_with_atexit:
                    continue
                weakref.finalize._registered_with_atexit = True
            atexit.unregister(call)
            atexit.register(call, *given, **named)


def imported(*names: str) -> list[Arrival]:
    """Import modules, each after those that it needs, and note what comes with each."""
    return [_imported(name) for name in names]


def _imported(name: str) -> Arrival:
    before, at_exit, register = {*sys.modules}, [], atexit.register

    def noting(call: Callable[..., Any], *given: Any, **named: Any) -> Callable[..., Any]:
        at_exit.append((call, given, named))
        return register(call, *given, **named)

    atexit.register = noting
    try:
        importlib.import_module(name)
    finally:
        atexit.register = register
    came = [each for each in sys.modules if each not in before]
    ours = {each: sys.modules[each] for each in came if each.partition(".")[0] not in sys.stdlib_module_names}
    return Arrival(name, ours, at_exit)


class Held(MetaPathFinder):
    """Modules that are out of sight until a program imports one: that is back then, and what is below it.

    With the modules that were imported by name all is back that came with them, and with those before in their row.
    """

    def __init__(self, *rows: Sequence[Arrival]) -> None:
        self._rows = [[*row] for row in rows]

    @property
    def _arrivals(self) -> list[Arrival]:
        return [arrival for row in self._rows for arrival in row]

    def hold(self) -> None:
        """Take the modules away, and stand before the finder of files, so behind whoever wants to be asked first."""
        atexit.unregister(weakref.finalize._exitfunc)
        weakref.finalize._registered_with_atexit = False
        earlier: dict[str, ModuleType] = {}
        for arrival in self._arrivals:
            arrival.hold(earlier)
            earlier |= arrival.modules
        sys.meta_path.insert(sys.meta_path.index(PathFinder), self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        held = next((each.modules[fullname] for each in self._arrivals if fullname in each.modules), None)
        spec = PathFinder.find_spec(fullname, path, target) if held is not None else None
        known = getattr(held, "__spec__", None)
        if spec is None or known is None or spec.origin != known.origin:  # the program has one of the same name
            return None
        spec.loader = _Loader(held, spec.loader, self)
        return spec

    def give_back(self, name: str) -> None:
        for row in self._rows:
            names = [arrival.name for arrival in row]
            come = names.index(name) + 1 if name in names else 0
            for arrival in row[:come]:
                arrival.give_back([*arrival.modules])
                arrival.end()
            del row[:come]
            for arrival in row:
                if not come and name in arrival.modules:
                    arrival.give_back([each for each in arrival.modules if f"{each}.".startswith(f"{name}.")])


class _Loader(Loader):
    """Gives a module that has run already: empty until it would run, and then with its own loader."""

    def __init__(self, module: ModuleType, loader: Loader | None, held: Held) -> None:
        self._module, self._loader, self._held = module, loader, held
        self._names: dict[str, Any] = {}

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        self._names = {**vars(self._module)}
        vars(self._module).clear()
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update(self._names | vars(module))
        module.__loader__ = module.__spec__.loader = self._loader
        self._held.give_back(module.__spec__.name)

    def __getattr__(self, name: str) -> Any:
        """Answer who has only looked for the module."""
        return getattr(self._loader, name)
