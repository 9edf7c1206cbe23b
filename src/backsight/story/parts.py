"""A tensor whose entries a loop fills, one in each iteration: the same as a list that is joined after it."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Sequence

from backsight.source import LoopFacts, loop_facts, parsed, statement_at
from backsight.source.bindings import arms_of, uses
from backsight.source.body import Body, callee, dotted, expressions, is_stored, statements
from backsight.source.edits import put, write
from backsight.source.rewriting import rewritten
from backsight.text import listed

_RANGES = frozenset({"range", "trange"})
_SIZES = frozenset({"shape", "size", "dim", "ndim", "numel", "dtype", "device", "new_zeros", "new_ones", "new_empty"})
_HANDS_ON = frozenset({"tqdm", "track"})


def fills(statement: ast.stmt, name: str) -> bool:
    """Whether the statement assigns a part of `name`."""
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return any(isinstance(target, ast.Subscript) and dotted(target.value) == name for target in targets)


def fills_in_order(body: Body, statement: ast.stmt, name: str) -> bool:
    """Whether a loop gives one entry after another its value: `x[:, t] = ...`, where t counts.

    Not so where a mask, a slice or a tensor of positions selects what is filled, where it is the same in each iteration
    or filled in some of them only, where each makes the tensor anew, and where the loop reads all of it: a list of the
    values is another tensor then.
    """
    facts = loop_facts(body, statement.lineno)
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    if facts is None or name in facts.assigned or not isinstance(target, ast.Subscript) or _is_read(body, facts, name):
        return False
    index = _part(target)
    others = [each for each in _indices(target) if each is not index]
    counters = set(_counters(body, facts))
    match index:
        case ast.Name(id=name):
            ascends = name in counters
        case ast.BinOp(left=ast.Name(id=name), op=ast.Add() | ast.Sub(), right=ast.Name() | ast.Constant() as by):
            ascends = name in counters and not counters & {use.name for use in uses(by)}
        case _:
            ascends = False
    arms = arms_of(body, statement)
    conditions = [arm for arm, _ in arms if isinstance(arm, ast.If | ast.Match) and arm.lineno > facts.loop.line]
    return ascends and not conditions and all(ast.unparse(each) == ":" for each in others)


def _is_read(body: Body, facts: LoopFacts, name: str) -> bool:
    """Whether a loop reads all of a tensor, and more than its size."""
    loop = statement_at(body, *facts.loop.position)
    last = (loop.end_lineno if loop is not None else None) or 0
    inside = [each for each in statements(body.node) if facts.loop.line < each.lineno <= last]
    every = [node for each in inside for node in expressions(each)]
    parts = {id(each.value) for each in every if isinstance(each, ast.Subscript)}
    sizes = {id(each.value) for each in every if isinstance(each, ast.Attribute) and each.attr in _SIZES}
    return any(dotted(each) == name and id(each) not in parts | sizes and not is_stored(each) for each in every)


def _counters(body: Body, facts: LoopFacts) -> Iterator[str]:
    """The names that count a loop's iterations: of `for t in range(n)`, of `for t, x in enumerate(xs)`, of `t += 1`."""
    match statement_at(body, *facts.loop.position):
        case ast.For(target=target, iter=ast.Call() as over):
            while callee(over)[1] in _HANDS_ON and over.args and isinstance(over.args[0], ast.Call):
                over = over.args[0]
            first = target.elts[0] if isinstance(target, ast.Tuple) else target
            made = callee(over)[1]
            if isinstance(first, ast.Name) and (made == "enumerate" or (made in _RANGES and len(over.args) < 3)):
                yield first.id
    for each in statements(body.node):
        match each:
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=ast.Constant(value=1)) if (
                name in facts.assigned
            ):
                yield name


def _read_in(body: Body, later: Sequence[ast.stmt], facts: LoopFacts, name: str) -> bool:
    """Whether one of these statements reads a name inside the loop."""
    loop = statement_at(body, *facts.loop.position)
    last = (loop.end_lineno if loop else None) or 0
    return any(each.lineno <= last and use.name == name for each in later for use in uses(each))


def in_a_list(body: Body, statement: ast.stmt, name: str) -> str:
    """The parts in a list, which the loop may read: where it does, with each of the statements to change."""
    assert isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Subscript)
    facts, dim = loop_facts(body, statement.lineno), _dim(statement)
    joined = f"{name} = torch.stack(parts{dim})"
    inside = [each for each in statements(body.node) if facts and facts.loop.line < each.lineno]
    read = {
        body.text(node): each.lineno
        for each in inside
        if each.lineno <= statement.lineno
        for node in expressions(each)
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and dotted(node.value) == name
    }
    if not read or facts is None:
        return f"Collect the parts in a list and join them after the loop: {joined}."
    index, value = body.text(statement.targets[0].slice), body.text(statement.value)
    later = [each for each in inside if each.lineno > statement.lineno]
    if {*read} == {f"{name}[{index}]"} and "…" not in value and not _read_in(body, later, facts, name):
        parts = f"{name.rpartition('.')[2]}_parts"  # each pass reads only what it replaces: that may stay as it is
        joined = f"{name} = torch.stack({parts}{dim})"
        edits = f"{put(f'{parts} = []', 'above', facts.loop)}{write(body.place(statement), f'{parts}.append({value})')}"
        return (
            f"Collect the new parts of {name} in a list: put {parts} = [] above line {facts.loop.line}, "
            f"{parts}.append({value}) on line {statement.lineno} instead of filling {name}[{index}], and, after the "
            f"loop, {joined}{edits}{put(joined, 'beside', facts.loop)}."
        )
    first = [each for each in statements(body.node) if each.lineno < facts.loop.line and fills(each, name)]
    start = [_first_part(body, each) for each in first] or [_untouched(statement.targets[0])]
    if len(start) > 1 or not start[0]:
        return f"Collect the parts in a list, read them from it in the loop too, and join them after it: {joined}."
    entries = listed([f"{_of_list(text)} for {text}" for text in read], 4)
    edits = f"{put(f'parts = {start[0]}', 'above', facts.loop)}{put(joined, 'beside', facts.loop)}"
    edits += _read_from_list(body, statement, name, inside)
    return (
        f"Collect the parts in a list: put parts = {start[0]} before the loop, parts.append("
        f"{_of_list(body.text(statement.value), name)}) on line {statement.lineno} instead of filling "
        f"{name}[{index}]; read {entries}; and join them after the loop: {joined}{edits}."
    )


def _read_from_list(body: Body, statement: ast.Assign, name: str, inside: Sequence[ast.stmt]) -> str:
    """What appends a part to the list instead of filling it, and reads the others from there."""
    value = ast.unparse(_Listed(name).visit(copy.deepcopy(statement.value)))
    edits = str(write(body.place(statement), f"parts.append({value})"))
    for each in inside:
        parts = [node for node in expressions(each) if isinstance(node, ast.Subscript) and dotted(node.value) == name]
        read: dict[ast.expr, str] = {
            node: _of_list(body.text(node)) for node in parts if isinstance(node.ctx, ast.Load)
        }
        if each.lineno < statement.lineno and read:
            edits += str(write(body.place(each), rewritten(body, each, read)))
    return edits


def _first_part(body: Body, statement: ast.stmt) -> str:
    """What a list begins with in place of a statement before the loop: `[y0]` of `x[0] = y0`, `[*h]` of `x[:n] = h`."""
    assert isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Subscript)
    match _part(statement.targets[0]):
        case ast.Constant(value=0):
            return f"[{body.text(statement.value)}]"
        case ast.Slice(lower=None, step=None):
            return f"[*{body.text(statement.value)}]"
    return ""


def _untouched(target: ast.Subscript) -> str:
    """What a list begins with where a loop fills from the second part on, `x[t + 1] = ...`: the first, as it is."""
    match _part(target):
        case ast.BinOp(op=ast.Add(), right=ast.Constant(value=1)) as index:
            node = copy.deepcopy(target)
            elements = node.slice.elts if isinstance(node.slice, ast.Tuple) else []
            at = next((k for k, each in enumerate(elements) if not isinstance(each, ast.Slice)), None)
            if at is not None:
                elements[at] = ast.Constant(0)
            elif ast.dump(node.slice) == ast.dump(index):
                node.slice = ast.Constant(0)
            return f"[{ast.unparse(node)}]"
    return ""


def _of_list(text: str, name: str = "") -> str:
    """An expression with each part of a tensor read from the list."""
    node = parsed(text)
    if node is not None and name:
        return ast.unparse(_Listed(name).visit(node))
    return ast.unparse(_Listed(dotted(node.value) or "").visit(node)) if isinstance(node, ast.Subscript) else text


class _Listed(ast.NodeTransformer):
    """Reads the parts of a tensor from a list: `parts[t - 1]` for `x[:, t - 1]`, `parts[t][1:]` for `x[t, 1:]`."""

    def __init__(self, name: str) -> None:
        self.name = name

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        if dotted(node.value) != self.name:
            return node
        index = _part(node)
        part = ast.Subscript(ast.Name("parts"), index, ast.Load())
        rest = [each for each in _indices(node) if each is not index]
        if all(ast.unparse(each) == ":" for each in rest):
            return part
        return ast.Subscript(part, ast.Tuple(rest, ast.Load()) if len(rest) > 1 else rest[0], ast.Load())


def _part(node: ast.Subscript) -> ast.expr:
    """The index that tells which part it is: `t - 1` of `x[:, t - 1]`."""
    return next((each for each in _indices(node) if not isinstance(each, ast.Slice)), node.slice)


def _dim(statement: ast.stmt) -> str:
    """Along which dimension the statement fills: `, dim=1` for `x[:, t] = ...`."""
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    index = target.slice if isinstance(target, ast.Subscript) else None
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    at = next((k for k, each in enumerate(parts) if not isinstance(each, ast.Slice)), 0)
    return f", dim={at}" if at else ""


def _indices(node: ast.Subscript) -> list[ast.expr]:
    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
