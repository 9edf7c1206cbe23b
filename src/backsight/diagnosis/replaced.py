"""A model that is replaced after its optimizer was made: where, and what goes on with the old one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import FrameType

import torch

from backsight.diagnosis.amending import added
from backsight.diagnosis.program import bodies, constructions, named, statements_around
from backsight.diagnosis.schedules import schedules_of
from backsight.source import Body, Place, only
from backsight.source.body import callee, calls_in, dotted, statements
from backsight.story.fixes import removed


def replacing(frame: FrameType | None, model: str, built: Place) -> Place | None:
    """Return the only statement that replaces a model after its optimizer was built, by what is called `model`.

    An attribute is replaced outside of the function that builds the optimizer, and of any constructor; and everything
    is further down in that function.
    """
    return only(
        body.place(statement)
        for body, statement in statements_around(frame)
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call)
        if any(_is_called(target, model) for target in statement.targets)
        if _comes_later(body, statement, built)
    )


def _is_called(target: ast.expr, model: str) -> bool:
    """Whether a statement binds what is called so: `self.net`, `net`, or an entry, `net[2]` of `net.2`."""
    whole, _, last = model.rpartition(".")
    if last.isdigit() and isinstance(target, ast.Subscript):
        is_entry = isinstance(target.slice, ast.Constant) and str(target.slice.value) == last
        return is_entry and _last(dotted(target.value) or "") == _last(whole)
    name = dotted(target) or ""
    return _last(name) == _last(model) and ("." in name) is bool(whole)


def _comes_later(body: Body, statement: ast.stmt, built: Place) -> bool:
    node = body.node
    first = getattr(node, "lineno", 0)
    if body.file == built.file and first <= built.line <= (getattr(node, "end_lineno", None) or 2**31):
        return statement.lineno > built.last
    return getattr(node, "name", "__init__") != "__init__"


def made_again(
    frame: FrameType | None, optimizer: torch.optim.Optimizer, name: str, model: str, replaced: Place, built: Place
) -> str:
    """Return the fix: not to replace what is only filled again with a state; else to make anew what has the old one."""
    made = replaced.text.partition(" = ")[2]
    for body in bodies(frame):
        every = list(statements(body.node))
        if body.file == replaced.file and any(body.place(each) == replaced for each in every):
            fills = [each for each in every if each.lineno > replaced.last and _loads(each, model)]
            if fills and any(made == each for each in _values(frame, model, replaced)):
                return (
                    f"Keep the {model} that {name} was created for: {removed(replaced)}. Line {fills[0].lineno} loads "
                    "the state into it."
                )
    again = built.text if built.text.startswith(f"{name} = ") and "…" not in built.text else f"create {name}"
    others = [named(each, type(each).__name__) for each in schedules_of(optimizer)]
    edits = [added(built.text if built.text.startswith(f"{name} = ") else "…", "beside", replaced)]
    for each, other in zip(schedules_of(optimizer), others, strict=True):
        creating = constructions(frame, each, other)
        edits.append(added(creating[0].text, "beside", replaced) if len(creating) == 1 else "")
    edit = "".join(edits) if all(edits) else ""
    too = f" Create {', '.join(others)} again as well: it goes on with the old {name}." if others else ""
    code = f": {again}" if again != f"create {name}" else ""
    return f"After line {replaced.last}, create {name} again{code}{edit}.{too}"


def _values(frame: FrameType | None, model: str, but: Place) -> Iterator[str]:
    """Yield what else the program gives the model, as text."""
    for body, statement in statements_around(frame):
        place = body.place(statement)
        if isinstance(statement, ast.Assign) and place != but and any(_is_called(t, model) for t in statement.targets):
            yield place.text.partition(" = ")[2]


def _loads(statement: ast.stmt, model: str) -> bool:
    calls = ((dotted(callee(call)[0]) or "", callee(call)[1]) for call in calls_in(statement))
    return any(method == "load_state_dict" and _last(held) == _last(model) for held, method in calls)


def _last(name: str) -> str:
    return name.rpartition(".")[2]
