"""The files of the user's that the functions of a failure can reach, by what they import and define."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from types import FunctionType, ModuleType

from backsight.naming.plain import class_dict, is_class
from backsight.naming.roots import is_library, is_ours, module_dict, user_globals
from backsight.source import Body, calls_of
from backsight.story.failure import Failure

_MOST = 100


def user_files(failure: Failure) -> tuple[str, ...]:
    """Return them, those of the failing functions first."""
    found = dict.fromkeys(level.frame.f_code.co_filename for level in failure.users)
    spaces = [level.frame.f_globals for level in failure.users]
    if not spaces:  # a library runs the training: what the program has imported
        spaces = list(user_globals(()))
        found = {str(space["__file__"]): None for space in spaces if space.get("__file__")}
    seen = {id(space) for space in spaces}
    for space in spaces:  # grows as we go
        for value in list(space.values()) if len(found) < _MOST else ():
            file, other = _home(value)
            if other is not None and id(other) not in seen and file and not (is_library(file) or is_ours(file)):
                seen.add(id(other))
                found[file] = None
                spaces.append(other)
    return tuple(found)


def calls_in_files(failure: Failure) -> Iterator[tuple[Body, ast.stmt, ast.Call]]:
    """Yield the calls in these files, each with its function and its statement."""
    return calls_of(*user_files(failure))


def _home(value: object) -> tuple[str, dict[str, object] | None]:
    """The file and the namespace of the module that a function or a class comes from, or of a module."""
    if type(value) is FunctionType:
        return value.__code__.co_filename, value.__globals__
    module = sys.modules.get(str(class_dict(value).get("__module__"))) if is_class(value) else value
    if not issubclass(type(module), ModuleType):
        return "", None
    space = module_dict(module)
    return str(space.get("__file__") or ""), space
