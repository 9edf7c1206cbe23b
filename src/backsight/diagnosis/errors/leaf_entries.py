"""What to do where a loop writes the entries of a leaf: the writes of one pass are read by the next."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from backsight.diagnosis.evidence.turns import covers
from backsight.diagnosis.evidence.written import Written
from backsight.source.bindings import bound, uses
from backsight.source.body import LOOPS, Loop, callee, calls_in, dotted, expressions, statements
from backsight.source.changes import changed_names
from backsight.source.edits import Edit, lines_of, put, write
from backsight.source.rewriting import rewritten
from backsight.text import lines_at


def entries(found: Written) -> str:
    """The fix, with a list of the entries, or one copy above the loop; empty where no loop carries the writes.

    An entry that a product has saved must not change: a list takes a new tensor for it, and a copy is copied first.
    """
    loop, name = carrying(found), found.name
    if loop is None or not isinstance(found.statement, ast.Assign | ast.AugAssign):
        return ""
    reading = [each for each in statements(found.level.body) if each.lineno >= loop.lineno and _reads(name, each)]
    writing = [each for each in reading if name in changed_names(each)]
    last = name.rpartition(".")[2]
    new = last if "." in name and last not in found.level.variables else f"new_{last}"
    above_loop = lines_of(found.level.place.file, loop.lineno)[0]
    if all(_writes_entry(found, each) for each in writing):
        whole = [each for each in reading if not _is_by_entries(found, each)]
        stacked = f", or torch.stack({new}) on {lines_at((each.lineno for each in whole), 4)}" if whole else ""
        single, made = [each.lineno for each in reading if each not in whole], f"{new} = list({name})"
        used = instead_of(found, name, {each: f"torch.stack({new})" if each in whole else new for each in reading})
        return (
            f"Keep the entries in a list, where each can be replaced: put {made} above line {loop.lineno}"
            f"{put(made, 'above', above_loop)}, and use {new} instead of {name} on {lines_at(single, 4)}{stacked}"
            f"{used}."
        )
    first, again = f"{new} = {name}.clone()", f"{new} = {new}.clone()"
    copies = [put(again, "above", at) for at in lines_of(above_loop.file, *(each.lineno for each in writing))]
    used = f"{lines_at((each.lineno for each in reading), 4)}{instead_of(found, name, dict.fromkeys(reading, new))}"
    return (
        f"Modify copies: put {first} above line {loop.lineno}{put(first, 'above', above_loop)}, put {again} above "
        f"{lines_at((each.lineno for each in writing), 4)}{''.join(map(str, copies))}, so that what was computed from "
        f"the copy before keeps it, and use {new} instead of {name} on {used}."
    )


def instead_of(found: Written, name: str, new: Mapping[ast.stmt, str]) -> str:
    """Statements with something else in place of what they call the leaf, as edits."""
    body, edits = found.level.body, list[Edit]()
    for each, text in new.items() if body is not None else ():
        nodes = [node for node in computed_with(each) if body is not None and body.text(node) == name]
        if body is not None:
            edits.append(write(body.place(each), rewritten(body, each, dict.fromkeys(nodes, text))))
    return "".join(map(str, edits))


def computed_with(statement: ast.stmt) -> list[ast.expr]:
    """The expressions of a statement, but those whose gradient it reads: that is the leaf's."""
    every = [*expressions(statement)]
    asked = [each.value for each in every if isinstance(each, ast.Attribute) and each.attr == "grad"]
    return [each for each in every if not any(each is one for one in asked)]


def carrying(found: Written) -> Loop | None:
    """The outermost loop around the statement within one forward pass, in which the name stands for the same leaf: one
    turn goes on with what the turn before wrote."""
    line, own = found.level.line, {found.name, found.name.partition(".")[0]}
    for loop in (each for each in statements(found.level.body) if isinstance(each, LOOPS) and covers(each, line)):
        inside = [each for each in statements(found.level.body) if loop.lineno <= each.lineno <= (loop.end_lineno or 0)]
        trains = any(callee(call)[1] in ("backward", "step", "grad") for each in inside for call in calls_in(each))
        anew = (name for each in inside if not isinstance(each, ast.AugAssign) for name in bound(each))
        if not trains and own.isdisjoint(anew):
            return loop
    return None


def _reads(name: str, statement: ast.stmt) -> bool:
    return any(use.name == name for use in uses(statement))


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
    known = [found.level.value(name) for name in kept]
    known += [index.value] if isinstance(index, ast.Constant) else []
    return all(type(each) is int for each in known)
