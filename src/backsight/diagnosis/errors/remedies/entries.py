"""A remedy for a backward that gives the gradient of the entries which forward has picked the shape of all of them."""

from __future__ import annotations

import ast
import math

import torch

from backsight.diagnosis.errors.remedies.remedy import Match, Remedy, remedy
from backsight.diagnosis.evidence.custom import Applied, body_of, elements, returned
from backsight.diagnosis.evidence.refused import Refusal
from backsight.diagnosis.wording import shown
from backsight.findings.evidence import Fact
from backsight.source import Body, Place, only, statement_at
from backsight.source.body import callee, dotted
from backsight.source.definitions import values_of
from backsight.source.edits import on_line
from backsight.source.rewriting import rewritten, simple
from backsight.story.evaluated import value_of
from backsight.story.memory import is_tensor, shape_of
from backsight.tape import forward_class


@remedy(r"shape '\[(?P<due>[\d, ]*)\]' is invalid for input of size (?P<size>\d+)")
def _of_picked_entries(found: Refusal, match: Match) -> Remedy | None:
    """It has as many entries as the output, and is to have the shape of an argument."""
    node, call, level = next(iter(found.level.variables.values()), None), found.expression, found.level
    cls, receiver = forward_class(type(node)) if found.is_custom else None, found.receiver
    if cls is None or not isinstance(call, ast.Call) or receiver is None or level.body is None:
        return None
    function, size = Applied(node, cls), int(match["size"])
    due = tuple(int(each) for each in match["due"].split(","))
    name = only(name for name, shape in function.shapes.items() if shape == due)
    if name is None or size not in map(math.prod, function.outputs):
        return None
    read, count = level.body.text(receiver), math.prod(due)
    needs: Fact = f"{name} has {count} entries, each with a gradient of its own; {read} has the {size} of the output."
    shape = ", ".join(level.body.text(each) for each in call.args)
    place, index = _picked(function, name, due) or (None, "")
    held = level.value(index)
    if place is None or not is_tensor(held) or call.keywords:
        return Remedy(f"Compute a gradient for each entry of {name}.", (needs,))
    if held.dtype == torch.bool and shape_of(held) == due:
        new = f"{simple(read)}.new_zeros({shape}).masked_scatter({index}, {read})"
    elif held.dtype == torch.int64 and shape_of(held) == (size,):
        flat = read if shape_of(value_of(level, receiver)) == (size,) else f"{simple(read)}.reshape(-1)"
        new = f"{simple(read)}.new_zeros({shape}).view(-1).index_add_(0, {index}, {flat}).view({shape})"
    else:
        return Remedy(f"Compute a gradient for each entry of {name}.", (needs,))
    line = rewritten(level.body, level.statement, {call: new}) if level.statement is not None else ""
    return Remedy(
        f"Put it into zeros of the shape of {name}, at the entries that {index} picks: "
        f"{on_line(level.place, line) if line else f'`{new}`'}.",
        (needs, shown(place, f"picks {size} entries of {name}, and the gradient of the others is 0.", "read")),
    )


def _picked(function: Applied, name: str, due: tuple[int, ...]) -> tuple[Place, str] | None:
    """The statement of forward that takes what it returns out of an argument, by an index for all dimensions at once,
    and the variable with this index: `flat[index]` of `flat = x.reshape(-1)`, `x[mask]`."""
    body = body_of(function.cls, "forward")
    every = [value for each in returned(body) for value in elements(each)] if body is not None else []
    picked = _meant(body, every[0]) if body is not None and len(every) == 1 else None
    index = dotted(picked.slice) if isinstance(picked, ast.Subscript) else None
    if body is None or not isinstance(picked, ast.Subscript) or index is None:
        return None
    whole = _meant(body, picked.value) if dotted(picked.value) != name else picked.value
    receiver, method = callee(whole) if isinstance(whole, ast.Call) else (None, "")
    is_flat = method in ("reshape", "view", "flatten", "ravel") and isinstance(whole, ast.Call) and len(whole.args) < 2
    if dotted(whole) != name and not (is_flat and dotted(receiver) == name):
        return None
    statement = statement_at(body, picked.lineno, picked.col_offset)
    return (body.place(statement), index) if statement is not None else None


def _meant(body: Body, value: ast.expr) -> ast.expr | None:
    """What a variable has been given, by the only statement that gives it a value; any other expression itself."""
    name = dotted(value)
    return only(values_of(body, name, value.lineno)) if name else value
