"""The modules that a test has nothing to do with, out of its sight.

A search for names looks into all modules that there are. Collecting the tests leaves six thousand, of transformers,
pandas and a hundred other packages, with which each search takes twice its time. What is aside is back, as it was, once
somebody imports it.
"""

from __future__ import annotations

import copy
import os
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

TESTS = os.path.dirname(__file__) + os.sep


class OfTests:
    """The modules of tests, and of what helps them."""

    def __init__(self) -> None:
        self.modules: dict[str, ModuleType] = {}

    def set_aside(self) -> None:
        for name, module in list(sys.modules.items()):
            if name != "conftest" and (getattr(module, "__file__", None) or "").startswith(TESTS):
                self.modules[name] = sys.modules.pop(name)

    def bring_back(self, module: ModuleType) -> list[ModuleType]:
        """Put a module of tests where a program has its modules, with those that it uses, and those beside it.

        Return it and those that it uses.
        """
        used = self._take([module])
        folders = (os.path.dirname(str(module.__file__)), os.path.dirname(__file__))
        beside = [each for each in self.modules.values() if os.path.dirname(str(each.__file__)) in folders]
        self._take([each for each in beside if not os.path.basename(str(each.__file__)).startswith("test_")])
        return used

    def _take(self, todo: list[ModuleType]) -> list[ModuleType]:
        taken = []
        while todo:
            each = todo.pop()
            taken.append(each)
            sys.modules[each.__name__] = each
            self.modules.pop(each.__name__, None)
            todo += [self.modules[name] for name in _used_by(each) if name in self.modules]
        return taken


def _used_by(module: ModuleType) -> set[str]:
    """The names of the modules that its functions, classes and modules are, or come from."""
    values = list(vars(module).values())
    names = {value.__name__ for value in values if issubclass(type(value), ModuleType)}
    of = (FunctionType, BuiltinFunctionType, type)
    return names | {str(value.__module__) for value in values if issubclass(type(value), of)}


class Libraries(MetaPathFinder, Loader):
    """The installed packages that have come since this was made, apart from PyTorch."""

    def __init__(self) -> None:
        self._kept = {_package(name) for name in sys.modules} | {"backsight", "numpy", "torch"}
        self._kept |= sys.stdlib_module_names
        self._packages: dict[str, dict[str, ModuleType]] = {}
        self._specs: dict[str, Any] = {}

    def set_aside(self) -> None:
        for name in [each for each in sys.modules if _package(each) not in self._kept]:
            if sys.modules[name] is not None:
                self._packages.setdefault(_package(name), {})[name] = sys.modules.pop(name)
        if self not in sys.meta_path:
            sys.meta_path.insert(sys.meta_path.index(PathFinder), self)

    def bring_back(self, users: list[ModuleType]) -> None:
        """Put the packages that some modules use where they were."""
        for name in {_package(name) for each in users for name in _used_by(each)}:
            sys.modules.update(self._packages.pop(name, {}))

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        module = self._packages.get(_package(fullname), {}).get(fullname)
        spec = getattr(module, "__spec__", None)
        other = PathFinder.find_spec(fullname, path, target) if spec is not None else None
        if spec is None or (other is not None and other.origin != spec.origin):  # a test has one of the same name
            return None
        self._specs[fullname], found = spec, copy.copy(spec)
        found.loader = self
        return found

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._packages[_package(spec.name)][spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """It has run already: all of its package is back."""
        name = module.__spec__.name if module.__spec__ is not None else module.__name__
        module.__spec__ = self._specs.pop(name)
        sys.modules.update(self._packages.pop(_package(name), {}))


def _package(name: str) -> str:
    return name.partition(".")[0]
