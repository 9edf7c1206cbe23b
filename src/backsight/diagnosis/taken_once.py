"""BS150: a number was taken from what is trained, once, before the training, and is computed with ever since."""

from __future__ import annotations

import ast
import threading
from collections.abc import Iterable, Iterator, Sequence

import torch

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import ending
from backsight.diagnosis.wording import shown, warning
from backsight.naming import search
from backsight.source import Body, Place, read_at
from backsight.source.body import dotted, functions, statements
from backsight.tape.saved import is_readable
from backsight.tracing import Line, Watch, ended, whence
from backsight.tracing.changes import version
from backsight.tracing.steps import parameters

_CUTS = frozenset({"detach", "data", "no_grad", "rewrapped"})

_SEEN = 8
"""Optimizer steps that have to be watched: what takes the number again in each of them has done so by then."""


def taken_once(watch: Watch, optimizers: Iterable[torch.optim.Optimizer]) -> list[Finding]:
    """Return the findings of single numbers that are trained, and whose value was taken before: by `.item()`, or as a
    detached tensor with a memory of its own.

    The program has to give it a name once, and to multiply or divide by that elsewhere. Who only wants to print how far
    it has moved subtracts it.
    """
    marks: Sequence[int] = watch.steps.past.get(threading.get_ident(), ())
    if len(marks) < _SEEN:
        return []
    held = {id(p) for each in optimizers for p in parameters(each) if p.numel() == 1}
    visits: dict[Line, list[tuple[list[torch.Tensor], int]]] = {}
    for cut, leaves, made in ended(watch, "item"):
        if cut.line is not None:
            visits.setdefault(cut.line, []).append(([p for ref in leaves if (p := ref()) is not None], made))
    found = []
    for line, times in visits.items():
        leaves_then, made = times[0]
        if len(times) == 1 and made <= marks[0] and len(leaves_then) == 1 and id(leaves_then[0]) in held:
            finding = _told(line.place, leaves_then[0], "takes the value once, as a Python number.")
            found += [finding] if finding is not None else []
    return found or list(_tensors(watch, held, marks[0]))


def _tensors(watch: Watch, held: set[int], began: int) -> Iterator[Finding]:
    """Yield the findings of tensors that were detached before the first step, and were not written since."""
    told = set()
    for tensor, _ in search((), collect=(torch.Tensor,), where=_is_number).found if held else ():
        if not isinstance(tensor, torch.Tensor) or tensor.requires_grad or not _is_fresh(tensor):
            continue
        for cut, refs, made in whence(watch, tensor)[:1]:
            leaves = [p for ref in refs if (p := ref()) is not None]
            if cut.line is None or cut.line in told or cut.by not in _CUTS or made > began:
                continue
            if len(leaves) == 1 and id(leaves[0]) in held and not _shares(tensor, leaves[0]):
                told.add(cut.line)
                finding = _told(cut.line.place, leaves[0], "takes the value once, into a tensor of its own.")
                if finding is not None:
                    yield finding


def _is_number(tensor: torch.Tensor) -> bool:
    return tensor.numel() == 1


def _is_fresh(tensor: torch.Tensor) -> bool:
    """Whether no operation has written into a tensor since it was made."""
    return is_readable(tensor) and version(tensor) == 0


def _shares(tensor: torch.Tensor, leaf: torch.Tensor) -> bool:
    """Whether a tensor has the memory of a leaf, and so follows it: `w.detach()`."""
    return not is_readable(leaf) or tensor.data_ptr() == leaf.data_ptr()


def _told(place: Place, leaf: torch.Tensor, says: str) -> Finding | None:
    body, made = read_at(place)
    if body is None or not isinstance(made, ast.Assign) or len(made.targets) != 1:
        return None
    name, bodies = dotted(made.targets[0]), list(functions(place.file))
    if name is None or sum(_binds(each, name) for other in bodies for each in statements(other.node)) != 1:
        return None
    used = next((use for other in bodies if (use := _multiplied(other, name)) is not None), None)
    of = next((each.path for each in search([leaf], limit=1).names[0]), "what is trained")
    if used is None:
        return None
    return warning(
        "BS150",
        f"{name} is a value taken from {of} before training: it does not follow what the optimizer learns.",
        (shown(place, says), shown(used, "computes with that value in each step.")),
        f"Take it again after each optimizer step: {place.text}. Or compute it from {of} where it is used, with "
        "detach() if that loss should not train it.",
        place,
    )


def _binds(statement: ast.stmt, name: str) -> bool:
    """Whether a statement gives a variable, or an attribute of any object, this name."""
    match statement:
        case ast.Assign(targets=targets):
            goals = [each for goal in targets for each in (goal.elts if isinstance(goal, ast.Tuple) else [goal])]
        case ast.AugAssign(target=goal) | ast.AnnAssign(target=goal):
            goals = [goal]
        case _:
            return False
    return any(ending(dotted(goal)) == ending(name) for goal in goals)


def _multiplied(body: Body, name: str) -> Place | None:
    """Return the statement of a function that multiplies or divides by what has this name."""
    for statement in statements(body.node):
        inside = (each for each in ast.walk(statement) if isinstance(each, ast.BinOp))
        products = (each for each in inside if isinstance(each.op, ast.Mult | ast.Div))
        compound = hasattr(statement, "body")
        if not compound and any(dotted(side) == name for each in products for side in (each.left, each.right)):
            return body.place(statement)
    return None
