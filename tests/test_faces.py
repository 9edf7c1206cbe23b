"""A room's face: the names of its `__init__`, and the modules that its docstring offers; all else is its own."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

import backsight

SOURCE = Path(backsight.__file__).parent
ROOMS = sorted(each.parent.name for each in SOURCE.glob("*/__init__.py"))
_OFFERED = re.compile(r"^Offered to other rooms: (.*?)\.$", re.MULTILINE | re.DOTALL)


def offered(room: str) -> set[str]:
    """The modules that a room offers, by the last sentence of its docstring."""
    said = _OFFERED.search(ast.get_docstring(ast.parse((SOURCE / room / "__init__.py").read_text())) or "")
    return set(re.findall(r"`([\w.]+)`", said[1])) if said else set()


def names(room: str) -> set[str]:
    """What a room's `__init__` exports."""
    (exported,) = [
        ast.literal_eval(each.value)
        for each in ast.parse((SOURCE / room / "__init__.py").read_text()).body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "__all__"
    ] or [[]]
    return set(exported)


@cache
def modules_used() -> dict[str, dict[str, list[str]]]:
    """By room, the modules of it that others import, and where."""
    used: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for file in SOURCE.rglob("*.py"):
        user = file.relative_to(SOURCE).parts[0].removesuffix(".py")
        for each in ast.walk(ast.parse(file.read_text())):
            if not (isinstance(each, ast.ImportFrom) and (each.module or "").startswith("backsight.")):
                continue
            _, room, *inner = (each.module or "").split(".")
            if room == user or room not in ROOMS:
                continue
            found = [".".join(inner)] if inner else [n.name for n in each.names if n.name not in names(room)]
            for module in found:
                used[room][module].append(f"{file.relative_to(SOURCE)}:{each.lineno}")
    return used


@pytest.mark.parametrize("room", ROOMS)
def test_other_rooms_use_what_is_offered_and_no_more(room: str) -> None:
    past = {module: where for module, where in modules_used()[room].items() if module not in offered(room)}
    assert not past, "use a name of the room's face, or have its docstring offer the module"


@pytest.mark.parametrize("room", ROOMS)
def test_what_is_offered_is_used(room: str) -> None:
    assert offered(room) <= modules_used()[room].keys()


@pytest.mark.parametrize("room", ROOMS)
def test_what_is_private_is_not_offered(room: str) -> None:
    assert not [each for each in offered(room) if any(part.startswith("_") for part in each.split("."))]
