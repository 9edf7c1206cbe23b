"""What to do where a loop writes the entries of a leaf: the writes of one pass are read by the next."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from backsight.diagnosis.evidence.turns import covers
from backsight.diagnosis.evidence.written import Written
from backsight.diagnosis.wording import listed
from backsight.source.bindings import bound, uses
from backsight.source.body import LOOPS, Loop, callee, calls_in, dotted, expressions, statements
from backsight.source.changes import changed_names
from backsight.source.edits import Edit, lines_of, put, write
from backsight.source.rewriting import rewritten
from backsight.story.evaluated import value_of


def entries(found: Written) -> str:
    """The fix, with a list of the entries, or one copy above the loop; empty where no loop carries the writes.

    An entry that a product has saved must not change: a list takes a new tensor for it, and a copy is copied first.
    """
    loop = _loop(found)
    if loop is None or not isinstance(found.statement, ast.Assign | ast.AugAssign):
        return ""
    reading = [each for each in _statements(found) if each.lineno >= loop.lineno and _reads(found, each)]
    writing = [each for each in reading if found.name in changed_names(each)]
    last = found.name.rpartition(".")[2]
    new = last if "." in found.name and last not in found.level.variables else f"new_{last}"
    above_loop = lines_of(found.level.place.file, loop.lineno)[0]
    used = f"and use {new} instead of {found.name} on {_lines([each.lineno for each in reading])}"
    used += _used(found, new, new, reading)
    if all(_writes_entry(found, each) for each in writing):
        whole = [each.lineno for each in reading if not _is_by_entries(found, each)]
        stacked = f", or torch.stack({new}) on {_lines(whole)}" if whole else ""
        single = _lines([each.lineno for each in reading if each.lineno not in whole])
        return (
            f"Keep the entries in a list, where each can be replaced: put {new} = list({found.name}) above line "
            f"{loop.lineno}{put(f'{new} = list({found.name})', 'above', above_loop)}, and use {new} instead of "
            f"{found.name} on {single}{stacked}{_used(found, new, f'torch.stack({new})', reading)}."
        )
    first, again = f"{new} = {found.name}.clone()", f"{new} = {new}.clone()"
    above = _lines([each.lineno for each in writing])
    copies = [put(again, "above", at) for at in lines_of(above_loop.file, *(each.lineno for each in writing))]
    return (
        f"Modify copies: put {first} above line {loop.lineno}{put(first, 'above', above_loop)}, put {again} above "
        f"{above}{''.join(map(str, copies))}, so that what was computed from the copy before keeps it, {used}."
    )


def _used(found: Written, new: str, whole: str, reading: Sequence[ast.stmt]) -> str:
    """The statements with what stands for the entries of the leaf, or for the whole, as edits."""
    body, edits = found.level.body, list[Edit]()
    for each in reading if body is not None else ():
        nodes = [node for node in expressions(each) if dotted(node) == found.name]
        text = new if _is_by_entries(found, each) else whole
        if body is not None:
            edits.append(write(body.place(each), rewritten(body, each, dict.fromkeys(nodes, text))))
    return "".join(map(str, edits))


def _loop(found: Written) -> Loop | None:
    """The outermost loop around the statement within one forward pass, in which the name stands for the same leaf."""
    name, line = found.name, found.level.line
    around = (each for each in _statements(found) if isinstance(each, LOOPS) and covers(each, line))
    return next((each for each in around if not _binds(found, each, name) and not _trains(found, each)), None)


def _binds(found: Written, loop: Loop, name: str) -> bool:
    inside = [each for each in _statements(found) if loop.lineno <= each.lineno <= (loop.end_lineno or 0)]
    names = set[str]().union(*(bound(each) for each in inside))
    return name in names or name.partition(".")[0] in names


def _trains(found: Written, loop: Loop) -> bool:
    inside = (each for each in _statements(found) if loop.lineno <= each.lineno <= (loop.end_lineno or 0))
    return any(callee(call)[1] in ("backward", "step", "grad") for each in inside for call in calls_in(each))


def _statements(found: Written) -> list[ast.stmt]:
    return [*statements(found.level.body.node)] if found.level.body else []


def _reads(found: Written, statement: ast.stmt) -> bool:
    return any(use.name == found.name for use in uses(statement))


def _writes_entry(found: Written, statement: ast.stmt) -> bool:
    """Whether a statement sets one entry, `season[k] = value`, and no part of several."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    return isinstance(target, ast.Subscript) and dotted(target.value) == found.name and _is_number(found, target.slice)


def _is_by_entries(found: Written, statement: ast.stmt) -> bool:
    """Whether each read of the leaf is one of its entries."""
    every = [*expressions(statement)]
    held = [each for each in every if dotted(each) == found.name]
    of_entries = [each.value for each in every if isinstance(each, ast.Subscript) and _is_number(found, each.slice)]
    return all(any(each is one for one in of_entries) for each in held)


def _is_number(found: Written, index: ast.expr) -> bool:
    names = [dotted(each) for each in ast.walk(index) if isinstance(each, ast.Name | ast.Attribute)]
    plain = isinstance(index, ast.Constant | ast.Name | ast.Attribute | ast.BinOp | ast.UnaryOp)
    if not plain or any(isinstance(each, ast.Call | ast.Subscript) for each in ast.walk(index)):
        return False
    kept = [name for name in names if name and not any(f"{name}." in (other or "") for other in names)]
    known = [found.level.value(name) for name in kept] + [value_of(found.level, index)] * isinstance(
        index, ast.Constant
    )
    return all(type(each) is int for each in known)


def _lines(lines: Sequence[int]) -> str:
    each = [str(line) for line in dict.fromkeys(lines)]
    return f"line{'s' * (len(each) > 1)} {listed(each, 4)}"
