"""How several views of a tensor, of which one is changed in place, become new parts that are joined again."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any, NamedTuple

from backsight.diagnosis.evidence.written import Written
from backsight.source import Body, Place, calls_of, inplace_changes, only, statement_at
from backsight.source.bindings import reads, spots, uses
from backsight.source.body import callee, calls_in, dotted, expressions, given_to, keyword, statements
from backsight.source.changes import changed_memory
from backsight.source.edits import Edit, instead, on_line, put, put_at, write
from backsight.source.out_of_place import out_of_place
from backsight.story.evaluated import value_of
from backsight.story.failure import Level
from backsight.story.memory import base_of, is_leaf, is_tensor, shape_of

_WIDEST = 160


class Taken(NamedTuple):
    """What a statement takes the views of, and how they are joined again.

    part: the expression that is taken apart, `x.chunk(2, dim=1)`, or the tensor itself.
    source: the tensor, as the program writes it.
    join, axis: `torch.cat`, and what its call has besides the parts: `, dim=1`.
    """

    part: ast.expr
    source: ast.expr
    join: str
    axis: str

    def joined(self, body: Body, parts: str) -> str:
        return f"{body.text(self.source)} = {self.join}({parts}{self.axis})"


def by_loop(found: Written, loop: ast.For) -> str:
    """Say how a loop over views makes new parts; empty where that is not known, or would not reach what reads them."""
    level, body, view = found.level, found.level.body, found.here
    part = _part_of(loop, view)
    taken = _taken(level, part) if part is not None else None
    if body is None or taken is None or loop.orelse or not _is_read(body, taken.source, loop):
        return ""
    statement = statement_at(body, *level.place.position)
    anew = out_of_place(body, level.line) or ""
    if loop.body == [statement] and anew.startswith(f"{view} = ") and _is_whole(level, loop, taken):
        each, through = anew.removeprefix(f"{view} = "), body.text(loop.iter)
        if dotted(taken.source) is None:  # it is written into, so that what is computed with has to be a copy
            through = through.replace(body.text(taken.part), f"{body.text(taken.part)}.clone()", 1)
        whole = taken.joined(body, f"[{each} for {body.text(loop.target)} in {through}]")
        if len(whole) <= _WIDEST and (dotted(taken.source) or not is_leaf(base_of(found.tensor))):
            return (
                f"Write `{whole}`{write(body.place(loop), whole)} instead of the loop: assigning to {view} in it would "
                "not write into the whole."
            )
    return _collected(found, body, loop, taken) if dotted(taken.source) else ""


def _collected(found: Written, body: Body, loop: ast.For, taken: Taken) -> str:
    """A loop that does more than one thing to each view puts it in a list."""
    level, view, source = found.level, found.here, dotted(taken.source) or ""
    inside = [each for each in ast.walk(loop) if isinstance(each, ast.stmt) and each is not loop]
    new, first = changed_anew(level, level.place), body.place(loop)
    ends = any(isinstance(each, ast.Break | ast.Continue) for each in inside)
    if new is None or ends or any(reads(each, source) for each in inside) or not _is_whole(level, loop, taken):
        return ""
    used = {use.name for each in statements(body.node) for use in uses(each)}
    parts = next(name for name in ("parts", "new_parts", f"{view}_parts") if name not in used)
    whole = taken.joined(body, parts)
    anew = out_of_place(body, level.line)
    how = f"on line {level.line} write `{anew}`" if anew else f"put `{view} = {view}.clone()` above line {level.line}"
    kept, end = f"{parts} = []", f"{parts}.append({view})"
    return (
        f"Collect new parts and join them: {put_at(kept, 'above', first)}, {how}{new}, put `{end}` at the end of the "
        f"loop{put(end, 'end', first)}, and `{whole}` below it{put(whole, 'beside', first)}. Assigning to {view} does "
        f"not write into {source}."
    )


def by_helper(found: Written, caller: Level, loop: ast.For) -> str:
    """Say how a function that only modifies what it is given returns it anew, and how the loop which calls it with each
    view joins these; empty where the program calls it otherwise, too."""
    level, body, view, outer = found.level, found.level.body, found.here, caller.body
    node, call = body.node if body is not None else None, getattr(caller.statement, "value", None)
    if body is None or outer is None or not isinstance(node, ast.FunctionDef) or not isinstance(call, ast.Call):
        return ""
    at, part = _position(call, dotted(loop.target) or ""), _part_of(loop, dotted(loop.target) or "")
    taken = _taken(caller, part) if part is not None else None
    plain = at is not None and [each.arg for each in node.args.args][at : at + 1] == [view]
    if taken is None or not plain or loop.body != [caller.statement] or not _is_read(outer, taken.source, loop):
        return ""
    changes = inplace_changes(body, view)
    new = [changed_anew(level, each) if out_of_place(body, each.line) else None for each in changes]
    ends = any(isinstance(each, ast.Return | ast.Yield | ast.For | ast.If) for each in ast.walk(node))
    every = [each for each in calls_of(body.file) if dotted(each[2].func) == dotted(call.func)]
    others = [each for each in every if each[2] is not call]
    again = [
        (of, one, dotted(next(iter(each.args[at:]), None))) for of, one, each in others if isinstance(one, ast.Expr)
    ]
    if None in new or ends or dotted(taken.source) is None or len(again) < len(others) or not all(a[2] for a in again):
        return ""
    whole = taken.joined(outer, f"[{outer.text(call)} for {outer.text(loop.target)} in {outer.text(loop.iter)}]")
    pairs = zip(changes, new, strict=True)
    anew = [f"on line {each.line}, write `{out_of_place(body, each.line)}`{edit}" for each, edit in pairs]
    sites = "".join(f"; {on_line(of.place(each), f'{name} = {of.text(each)}')}" for of, each, name in again)
    end, first = f"return {view}", outer.place(loop)
    return (
        f"Let {node.name} return a new tensor: {', '.join(anew)}, and put `{end}` at the end of it"
        f"{put(end, 'end', body.place(node))}. Then write `{whole}`{write(first, whole)} instead of the loop on line "
        f"{loop.lineno}{sites}."
    )


def _position(call: ast.Call, name: str) -> int | None:
    """At which position a call is given a name."""
    return only(k for k, each in enumerate(call.args) if name and dotted(each) == name)


def by_unpacking(found: Written, maker: ast.stmt | None, others: Sequence[Place]) -> str:
    """Say how the views that a statement unpacks are joined again, below the last that is changed."""
    level, body, view = found.level, found.level.body, found.here
    target = maker.targets[0] if isinstance(maker, ast.Assign) and len(maker.targets) == 1 else None
    if body is None or not isinstance(maker, ast.Assign) or not isinstance(target, ast.Tuple | ast.List):
        return ""
    taken, names = _taken(level, maker.value), [dotted(each) for each in target.elts]
    places = [level.place, *others]
    changed = [statement_at(body, *each.position) for each in places]
    around = [each.arms for each in spots(body.node) if each.node in [maker, *changed]]
    new = [changed_anew(level, each) for each in places]
    if taken is None or dotted(taken.source) is None or None in names or len({*names}) < len(names):
        return ""
    if len({*around}) > 1 or None in new or any(out_of_place(body, each.line) is None for each in places):
        return ""
    whole, last = taken.joined(body, f"[{', '.join(map(str, names))}]"), places[-1]
    anew = f"on line {level.line}, write `{out_of_place(body, level.line)}`{new[0]}"
    return (
        f"Compute a new {view} and join it with the others: {anew}, and put `{whole}` below line "
        f"{last.line}{put(whole, 'below', last)}"
    )


def changed_anew(level: Level, place: Place) -> Edit | str | None:
    """What makes a statement change a new tensor, or a copy; None where that is not plain."""
    body, statement, away = level.body, statement_at(level.body, *place.position), out_of_place(level.body, place.line)
    if body is None or statement is None:
        return None
    if away:
        return instead(body, statement, away)
    changed = only({dotted(each) or "" for each in changed_memory(statement)}) or ""
    elements = {body.text(each) for each in expressions(statement) if _is_element(level, each, changed)}
    name = only(elements) if elements else changed if is_tensor(level.value(changed)) else ""
    return put(f"{name} = {name}.clone()", "above", place) if name else None


def _is_element(level: Level, node: ast.expr, container: str) -> bool:
    """Whether an expression is an element of this list or tuple."""
    held = isinstance(node, ast.Subscript) and dotted(node.value) == container
    return held and type(level.value(container)) in (list, tuple)


def _part_of(loop: ast.For, view: str) -> ast.expr | None:
    """What the views of a loop are taken from: `x` of `for k, part in enumerate(x)`."""
    if dotted(loop.target) == view:
        return loop.iter
    names = [dotted(each) for each in loop.target.elts] if isinstance(loop.target, ast.Tuple | ast.List) else []
    call = loop.iter if isinstance(loop.iter, ast.Call) else None
    if view not in names or call is None or call.keywords or any(isinstance(each, ast.Starred) for each in call.args):
        return None
    if callee(call) == (None, "enumerate") and len(names) == 2 and names[1] == view:
        return call.args[0]
    if callee(call) == (None, "zip") and len(call.args) == len(names):
        return call.args[names.index(view)]
    return None


def _taken(level: Level, part: ast.expr) -> Taken | None:
    body, call = level.body, part if isinstance(part, ast.Call) else None
    if body is None:
        return None
    if call is None:
        writable = dotted(part) or (isinstance(part, ast.Subscript) and dotted(part.value))
        return Taken(part, part, "torch.stack", "") if writable and _size(level, part) else None
    name, given = callee(call)[1], given_to(call)
    if name not in _TAKING or not given or dotted(given[0]) is None:
        return None
    rest = given[1:]
    along = rest[-1] if (name == "unbind" and rest) or len(rest) > 1 else None
    dim = keyword(call, "dim") or along
    axis = f", dim={body.text(dim)}" if dim is not None and body.text(dim) != "0" else ""
    return Taken(part, given[0], "torch.stack" if name == "unbind" else "torch.cat", axis)


_TAKING = ("unbind", "split", "chunk", "tensor_split", "split_with_sizes")


def _is_read(body: Body, source: ast.expr, loop: ast.stmt) -> bool:
    """Whether what the views are of is read below the loop, or kept: else a new one would be lost."""
    name = dotted(source) or dotted(getattr(source, "value", None)) or ""
    end = loop.end_lineno or loop.lineno
    return "." in name or any(reads(each, name) for each in statements(body.node) if each.lineno > end)


def _is_whole(level: Level, loop: ast.For, taken: Taken) -> bool:
    """Whether a loop goes through all of the views: `zip` ends with the shortest of what it is given."""
    if not isinstance(loop.iter, ast.Call) or callee(loop.iter) != (None, "zip"):
        return True
    whole = _size(level, taken.part)
    return whole > 0 and all(_size(level, each) >= whole for each in loop.iter.args)


def _size(level: Level, node: ast.expr) -> int:
    """How many elements there are to iterate over; 0 where that is not known."""
    value: Any = value_of(level, node)
    shape = shape_of(value)
    if isinstance(node, ast.Subscript) and (whole := shape_of(value_of(level, node.value))) is not None:
        shape = whole[1:] if type(value_of(level, node.slice)) is int else ()
    return len(value) if type(value) in (list, tuple) else shape[0] if shape else 0


def is_only_shown(levels: Sequence[Level], name: str, line: int) -> bool:
    """Whether all that reads a tensor below a line makes plain values or a picture of it: no gradient goes there."""
    body = levels[0].body if levels else None
    below = (each for each in statements(body.node) if each.lineno > line) if body is not None else ()
    later = [each for each in below if reads(each, name)]
    return bool(later) and all(_shows(levels, each, name) for each in later)


def _shows(levels: Sequence[Level], statement: ast.stmt, name: str) -> bool:
    outer = [dotted(each) for each in expressions(statement)].count(name)
    shown = {id(node) for call in calls_in(statement) if callee(call)[1] in _SHOWING for node in ast.walk(call)}
    if sum(dotted(each) == name and id(each) in shown for each in expressions(statement)) == outer:
        return True
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        return is_only_shown(levels, statement.targets[0].id, statement.lineno)
    caller = levels[1].statement if len(levels) > 1 else None
    if not isinstance(statement, ast.Return) or caller is None:
        return False
    if any(callee(call)[1] in _SHOWING for call in calls_in(caller)):
        return True
    given = caller.targets[0] if isinstance(caller, ast.Assign) else None
    return isinstance(given, ast.Name) and is_only_shown(levels[1:], given.id, caller.lineno)


_SHOWING = ("detach", "item", "tolist", "numpy", "imshow", "imsave", "save_image", "to_pil_image", "ToPILImage", "save")
