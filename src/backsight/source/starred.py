"""What `from common import *` brings: the names of a module, as it is loaded by now."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from keyword import iskeyword
from types import ModuleType
from typing import Any

_STAR = re.compile(r"^[ \t]*from[ \t]+(\.*[\w.]*)[ \t]+import[ \t]*\*", re.MULTILINE)
_NAMESPACE: Any = vars(ModuleType)["__dict__"]
"""Past what a lazy module answers with code of its own."""


@lru_cache(maxsize=64)
def starred(source: str) -> tuple[str, ...]:
    """The modules that a text imports with a star, as it writes them: `torch.nn`, `.layers`."""
    return tuple(_STAR.findall(source))


def loaded(module: str, importer: str) -> Mapping[str, object]:
    """The namespace of a module as a file imports it; empty where it is not loaded."""
    name = module.lstrip(".")
    found = sys.modules.get(name) if name == module else _beside(module, importer)
    return _NAMESPACE.__get__(found) if issubclass(type(found), ModuleType) else {}


def import_of_each(module: str, held: Mapping[str, object]) -> str:
    """An import of each name that the star stands for."""
    listed = held.get("__all__")
    names = listed if isinstance(listed, list | tuple) else [each for each in held if not each.startswith("_")]
    plain = (each for each in names if type(each) is str and each.isidentifier() and not iskeyword(each))
    return f"from {module} import {', '.join(plain)}"


def _beside(module: str, importer: str) -> object:
    """The module that a relative import means: the one whose file lies there."""
    name = module.lstrip(".")
    folder = os.path.abspath(importer)
    for _ in range(len(module) - len(name)):
        folder = os.path.dirname(folder)
    path = os.path.join(folder, *name.split(".")) if name else folder
    files = (f"{path}.py", os.path.join(path, "__init__.py"))
    every = (each for each in list(sys.modules.values()) if issubclass(type(each), ModuleType))
    return next((each for each in every if _NAMESPACE.__get__(each).get("__file__") in files), None)
