"""What the program calls a tensor where it was made, behind the parameters through which it was handed on."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from backsight.source import Place, assignments, statement_at
from backsight.source.body import dotted, expressions, statements
from backsight.story.failure import Failure, Level
from backsight.story.scenes import called_function
from backsight.story.sections import Section

_SMALL = 100
_DEEP = 5


@dataclass(frozen=True, eq=False)
class Handed:
    """The outermost function of the traceback that has a variable for the tensor.

    name: what it says for the tensor, `batch["t"]`.
    inner: what the function that failed calls it; the same where nothing was handed on.
    """

    level: Level
    name: str
    inner: str

    @property
    def given(self) -> Place | None:
        """The statement that handed it on under another name."""
        return self.level.place if self.inner and self.inner != self.name else None

    @property
    def assigned(self) -> Place | None:
        """The statement of that function which gave the variable its value."""
        base = self.name.partition("[")[0]
        return next(reversed(assignments(self.level.body, base, before=self.level.line)), None)

    @property
    def made(self) -> Place | None:
        """The statement that made it: in the function that returned it, where the user's did."""
        body, base = self.level.body, self.name.partition("[")[0]
        section = Section(body, (), self.level.variables, self.level.frame.f_globals) if body else None
        return _made(section, base, self.level.line, _DEEP) if section else None


def handed(failure: Failure, tensor: object) -> Handed | None:
    """Find the tensor itself among the variables of the functions on the stack; None where no variable holds it.

    Of a traceback's text alone there is no tensor, and no value of a variable.
    """
    if tensor is None:
        return None
    found = [(level, name) for level in failure.users if (name := _variable(level, tensor))]
    inner = found[0][1] if found and found[0][0] is failure.user else ""
    return Handed(*found[-1], inner) if found else None


def _variable(level: Level, tensor: object) -> str:
    """What the running statement says for a tensor; else the variable, or small container, that holds it."""
    written = (dotted(node) for node in expressions(level.statement)) if level.statement else ()
    said = next((name for name in written if name and level.value(name) is tensor), None)
    if said:
        return said
    every = [(name, value) for name, value in level.variables.items() if not name.startswith("_")]
    items = ((f"{name}[{key!r}]", each) for name, value in every for key, each in _items(value))
    return next((name for name, value in (*every, *items) if value is tensor), "")


def _items(value: Any) -> Iterator[tuple[object, object]]:
    if type(value) in (list, tuple) and len(value) <= _SMALL:
        yield from enumerate(value)
    elif type(value) is dict and len(value) <= _SMALL and "__builtins__" not in value:
        yield from ((key, each) for key, each in value.items() if type(key) in (int, str))


def _made(section: Section, name: str, before: int, depth: int) -> Place | None:
    places = assignments(section.body, name, before=before)
    statement = statement_at(section.body, *places[-1].position) if places else None
    value = getattr(statement, "value", getattr(statement, "iter", None))
    target = next(iter(getattr(statement, "targets", ())), getattr(statement, "target", None))
    names = [each.id if isinstance(each, ast.Name) else "" for each in getattr(target, "elts", ())]
    inner = called_function(section, value) if isinstance(value, ast.Call) and depth else None
    if inner is None:
        return places[-1] if places else None
    for each in reversed(list(statements(inner.body.node))):
        for node in (each, *expressions(each)):
            returned = node.value if isinstance(node, ast.Return | ast.Yield) else None
            if isinstance(returned, ast.Tuple) and name in names and len(returned.elts) == len(names):
                returned = returned.elts[names.index(name)]
            if isinstance(returned, ast.Name):
                return _made(inner, returned.id, each.lineno, depth - 1)
            if returned is not None:
                return inner.body.place(each)
    return places[-1]
