"""BS145: each step is given the first batch of a loader, because each makes a new iterator."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

import torch
from torch.utils.data import DataLoader

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import files_around, program_frames
from backsight.diagnosis.wording import listed, numbered, shown, warning
from backsight.naming import search
from backsight.naming.plain import namespace
from backsight.source import Body, Place, function_at, statements_of
from backsight.source.body import LOOPS, callee, dotted, expressions, statements

CODES = ("BS145",)


def same_batch(model: str, steps: Sequence[int], rows: int, frame: FrameType | None) -> Finding | None:
    """Return the finding that a model was given the same values at each of some steps.

    Who overfits one batch takes it once, before the loop. So a statement has to take the first of a new iterator for
    each step, and a loader has to hold more than these rows.
    """
    found = list(_firsts(frame))
    if len(found) != 1:
        return None
    place, text = found[0]
    loaders = [(each, name) for each, name in search((), collect=(DataLoader,)).found if type(each) is DataLoader]
    named = [each for each, name in loaders if name.path.split(".")[-1] == text.split(".")[-1]]
    if not any(has_more(each, rows) for each in named or [each for each, _ in loaders]):
        return None
    return warning(
        "BS145",
        f"{model} is trained on the same batch in every step.",
        (
            f"Its input had the same values at steps {listed([numbered(each) for each in steps[:4]], 4)}.",
            shown(place, "creates a new iterator for each batch, so it always returns the first one.", "read"),
        ),
        f"Iterate with `for batch in {text}`. Or create the iterator once, iterator = iter({text}), call "
        "next(iterator) in each step, and create a new one at StopIteration.",
        place,
        since=steps[0],
    )


def _firsts(frame: FrameType | None) -> Iterator[tuple[Place, str]]:
    """Yield the statements that may run `next(iter(loader))` in each step, with what they call the loader."""
    running = {}
    for each in program_frames(frame):
        body = function_at(each.f_code)
        if body is not None:
            running[id(body.node)] = each.f_lineno
    for file in files_around(frame):
        for body, statement in statements_of(file):
            text = next(filter(None, map(_first, expressions(statement))), "")
            if text and _is_repeated(body, statement, running.get(id(body.node))):
                yield body.place(statement), text


def _first(node: ast.expr) -> str:
    """Return the name of what `next(iter(name))` takes the first of."""
    if isinstance(node, ast.Call) and dotted(node.func) == "next" and node.args:
        inner = node.args[0]
        if isinstance(inner, ast.Call) and dotted(inner.func) == "iter" and len(inner.args) == 1:
            return dotted(inner.args[0]) or ""
        if isinstance(inner, ast.Call) and callee(inner)[1] == "__iter__":
            return dotted(callee(inner)[0]) or ""
    return ""


def _is_repeated(body: Body, statement: ast.stmt, line: int | None) -> bool:
    """Whether a statement may run for each step: in a function that is called, or in a loop that leads to the step."""
    if line is None:
        return isinstance(body.node, ast.FunctionDef) and body.node.name != "__init__"
    loops = [each for each in statements(body.node) if isinstance(each, LOOPS)]
    return any(
        each.lineno < statement.lineno <= (each.end_lineno or 0) and each.lineno < line <= (each.end_lineno or 0)
        for each in loops
    )


def has_more(loader: Any, rows: int) -> bool:
    """Whether what a data set holds, as far as that can be seen without asking it, has more rows than these."""
    dataset: Any = (namespace(loader) or {}).get("dataset")
    values = [dataset, *(namespace(dataset) or {}).values()]
    values += [each for value in values if type(value) is tuple for each in value]
    return any(_rows(each) > rows for each in values)


def _rows(value: Any) -> int:
    if type(value) is list:
        return len(value)
    if type(value) is torch.Tensor or (type(value).__module__ == "numpy" and type(value).__name__ == "ndarray"):
        return int(value.shape[0]) if len(value.shape) else 0
    return 0
