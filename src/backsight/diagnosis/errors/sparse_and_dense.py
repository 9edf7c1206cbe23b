"""The parameters of a SparseAdam that have dense gradients, in an optimizer of their own: as edits of the program."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from backsight.diagnosis.wording import listed
from backsight.source import Body, Place, calls_of, only, read_at
from backsight.source.bindings import uses
from backsight.source.body import callee, dotted, expressions, functions, statements
from backsight.source.edits import on_line, put_at
from backsight.source.rewriting import rewritten
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure, Level
from backsight.story.files import user_files

_DENSE = ("Adam", "AdamW")
_DRIVEN = ("zero_grad", "step")


def moved_to_adam(failure: Failure, dense: Sequence[str], sparse: Sequence[str]) -> str:
    """Say how the program's SparseAdam keeps what has sparse gradients, and its Adam takes the others; empty where it
    has not one of each in the same function, or these names are not known there."""
    every = [*calls_of(*user_files(failure))]
    one, other = (only(each for each in every if callee(each[2])[1] in names) for names in (("SparseAdam",), _DENSE))
    if one is None or other is None or not all((*dense, *sparse)) or one[0] is not other[0] or not sparse:
        return ""
    body, lists = one[0], [each[2].args[0] if each[2].args else None for each in (one, other)]
    level = next((each for each in failure.users if each.body is not None and each.body.node is body.node), None)
    kept, taking = lists
    if level is None or kept is None or taking is None or not _known(level, (*dense, *sparse)):
        return ""
    own, others = f"[{', '.join(sparse)}]", f"[*{body.text(taking)}, {', '.join(dense)}]"
    if one[1] is other[1]:
        return on_line(body.place(one[1]), rewritten(body, one[1], {kept: own, taking: others}))
    new = [(one[1], rewritten(body, one[1], {kept: own})), (other[1], rewritten(body, other[1], {taking: others}))]
    return ", and ".join(on_line(body.place(at), text) for at, text in new) if all(text for _, text in new) else ""


def apart(failure: Failure, made: Place | None, sparse: Sequence[str]) -> str:
    """Say how the rest of what a SparseAdam was given gets an Adam, which is driven where that is; empty where the
    program does more with it, or does that elsewhere."""
    body, statement = read_at(made)
    level = next(
        (each for each in failure.users if body and each.body is not None and each.body.node is body.node), None
    )
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Attribute() as maker, args=[given, *_])):
            pass
        case _:
            return ""
    known = level is not None and bool(sparse) and all(sparse) and _known(level, sparse)
    if body is None or level is None or not known or (dotted(given) and type(value_of(level, given)) is not list):
        return ""
    driven, used = _driven(body, statement, name), {use.name for each in statements(body.node) for use in uses(each)}
    free = [each for each in ("dense", "sparse", "tables", "rest") if each not in used]
    if not driven or len(free) < 2:
        return ""
    beside, at = free[0], body.place(statement)
    source = given.args[0] if isinstance(given, ast.Call) and callee(given)[1] == "list" and given.args else given
    kept, first, leaving = f"[{sparse[0]}]", "", f"p is not {sparse[0]}"
    if len(sparse) > 1:
        kept, leaving = free[1], f"all(p is not each for each in {free[1]})"
        first = put_at(f"{kept} = [{', '.join(sparse)}]", "above", at) + "; "
    own = rewritten(body, statement, {given: kept})
    texts = {maker: f"{body.text(maker.value)}.Adam", given: f"[p for p in {body.text(source)} if {leaving}]"}
    rest = rewritten(body, statement, {**texts, statement.targets[0]: beside})
    if not own or not rest:
        return ""
    calls = [put_at(f"{beside}.{callee(call)[1]}()", "below", body.place(each)) for each, call in driven]
    return f"{first}{on_line(at, own)}; {put_at(rest, 'below', at)}; {listed(calls, len(calls))}"


def _driven(body: Body, made: ast.stmt, name: str) -> list[tuple[ast.stmt, ast.Call]]:
    """The statements that call zero_grad() and step() of an optimizer, where nothing else in the file reads it."""
    inside = [*statements(body.node)]
    elsewhere = [one for each in functions(body.file) if each.node is not body.node for one in statements(each.node)]
    if any(dotted(node) == name for each in elsewhere for node in expressions(each)):
        return []
    reading = [each for each in inside if each is not made and any(dotted(one) == name for one in expressions(each))]
    found = []
    for each in reading:
        call = each.value if isinstance(each, ast.Expr) and isinstance(each.value, ast.Call) else None
        if call is None or call.args or call.keywords or dotted(call.func) not in [f"{name}.{one}" for one in _DRIVEN]:
            return []
        found.append((each, call))
    return found if {callee(call)[1] for _, call in found} == {*_DRIVEN} else []


def _known(level: Level, names: Sequence[str]) -> bool:
    """Whether a function that runs has these names."""
    return all(level.value(each.partition(".")[0].partition("[")[0]) is not None for each in names)
