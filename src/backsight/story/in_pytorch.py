"""What NumPy computes of a loss, written in PyTorch: from the conversion to where it becomes a tensor again."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from backsight.source import Body, Place, statement_at
from backsight.source.bindings import bound, names_read, uses
from backsight.source.body import callee, calls_in, dotted, is_compound, statements
from backsight.source.definitions import gathers
from backsight.source.edits import write
from backsight.source.imports import library, meaning
from backsight.story.sections import Section, followed
from backsight.text import listed

_RENAMED = {"array": "stack", "asarray": "stack", "concatenate": "cat", "append": "cat", "power": "pow"}
_BACK = ("tensor", "as_tensor", "from_numpy", "FloatTensor", "Tensor")
_SEVERAL = (ast.List, ast.ListComp, ast.GeneratorExp)
_REDUCED = ("mean", "sum", "prod", "max", "amax", "min", "amin", "std", "var", "median")
_OF_DIMS = ("roll", "flip")
"""What calls its axes `dims` in PyTorch, by that name alone, and takes several."""
_MOST = 6


class Part(NamedTuple):
    """A function that computes with a converted tensor: from which line on, and the names that stand for it."""

    body: Body
    start: int
    names: frozenset[str]


def in_pytorch(
    body: Body, start: int, converted: str, arrays: Mapping[str, str] | None = None, further: Sequence[Part] = ()
) -> str:
    """Return what to write from line `start` on, where a function computes with a converted tensor; empty where that
    is nothing, or too much.

    >>> in_pytorch(body, 17, "out")
    'on line 17, write `spectrum = torch.fft.rfft(out)`'

    converted: what the program passes to NumPy, `out`. arrays: the variables that hold arrays of NumPy's, with the kind
        of each, "f" for floating point, and those that hold a list of tensors, which are "several".
    further: the other functions that it goes through.
    """
    edits, left, marks = dict[str, str](), dict[str, list[str]](), dict[str, str]()
    for part in (Part(body, start, frozenset({converted})), *further):
        edit = _InPyTorch(converted, (arrays or {}) if part.body is body else {})
        of = "" if part.body.file == body.file else f" of {Path(part.body.file).name}"
        for each, new in _rewritten(part, edit):
            edits[f"line {each.lineno}{of}"] = new
            marks[f"line {each.lineno}{of}"] = str(write(part.body.place(each), new))
            left |= {f"line {each.lineno}{of}": edit.unknown} if edit.unknown else {}
    if not edits or len(edits) > _MOST:
        return ""
    return "; ".join(
        f"on {line}, use a PyTorch operation instead of {listed(left[line], 3)}"
        if line in left
        else (f"`{new}` will do on {line}" if left else f"on {line}, write `{new}`{marks[line]}")
        for line, new in edits.items()
    )


def back_in(body: Body, line: int) -> Place | None:
    """The first statement, from a conversion to NumPy on, that makes a tensor again of what is computed with it, in the
    same function: that tensor has no graph, whoever reads it."""
    names = set[str]()
    for each in (each for each in statements(body.node) if each.lineno >= line):
        for call in calls_in(each):
            if callee(call)[1] in _BACK and library(call.func) == "torch" and call.args:
                inner = [node for node in ast.walk(call.args[0]) if isinstance(node, ast.expr)]
                here = each.lineno == line
                converts = here and any(isinstance(n, ast.Call) and callee(n)[1] == "numpy" for n in inner)
                if converts or any(dotted(node) in names for node in inner):
                    return body.place(each)
        if each.lineno == line or any(use.name in names for use in uses(each) if not use.binds):
            names |= bound(each)
    return None


def _rewritten(part: Part, edit: _InPyTorch) -> Iterator[tuple[ast.stmt, str]]:
    """Yield the statements of a part that are to be written otherwise, with what to write."""
    names, made = {*part.names, *(name for name, kind in edit.arrays.items() if kind == "several")}, set[str]()
    for each in statements(part.body.node):
        reads = names_read(each)
        converts = any(callee(call)[1] == "numpy" or edit.converts(call) for call in calls_in(each))
        if each.lineno < part.start:
            continue
        gathered = {name for name in bound(each) if isinstance(each, ast.Assign) and gathers(each.value)}
        if each.lineno == part.start or names & reads or converts:
            made |= {name for name in bound(each) if "." not in name}
            names |= made | _filled(each)
            edit.arrays = {name: kind for name, kind in edit.arrays.items() if name not in bound(each)}
            edit.unknown = []
            new = ast.unparse(edit.visit(copy.deepcopy(each))) if not is_compound(each) else ""
            if new and new != ast.unparse(each):
                yield each, new
        edit.arrays |= dict.fromkeys(gathered, "several")


def _filled(statement: ast.stmt) -> set[str]:
    """The containers into which a statement puts something: `rows` of `rows.append(x)` and of `rows[k] = x`."""
    match statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append" | "extend" | "insert"))):
            return {name}
        case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name))]):
            return {name}
    return set()


def beyond(body: Body, line: int, back: Sequence[Section]) -> list[Part]:
    """Return the other functions that an array goes through, from the function that converts a tensor on a line to
    those that make a tensor of it again, `back`."""
    parts: dict[ast.AST, tuple[Part, ast.Call | None]] = {body.node: (Part(body, line, frozenset()), None)}
    every = list(followed(list(back)))
    inner = next((each for each in every if each.body.node is body.node), None)
    ends = {each.body.node for each in back}
    while inner is not None and inner.body.node not in ends and inner.caller is not None and inner.call is not None:
        caller, call = inner.caller.body, inner.call
        statement = statement_at(caller, call.lineno, call.col_offset)
        names = frozenset(bound(statement)) if statement is not None else frozenset()
        parts.setdefault(caller.node, (Part(caller, call.lineno, names), call))
        inner = inner.caller
    for each in every:
        known = parts.get(each.caller.body.node) if each.caller is not None else None
        if known is None or each.call is None or each.body.node in parts:
            continue
        at, given = known
        if each.call.lineno > at.start or any(node is given for node in ast.walk(each.call) if node is not each.call):
            names = frozenset(argument.arg for argument in ast.walk(each.body.node) if isinstance(argument, ast.arg))
            parts[each.body.node] = Part(each.body, 0, names), None
    return sorted((part for part, _ in parts.values() if part.body is not body), key=lambda part: part.start)


class _InPyTorch(ast.NodeTransformer):
    """Leaves the conversions to NumPy and back out, and calls functions of torch by the names of NumPy's.

    PyTorch takes NumPy's names of arguments, `axis` and `keepdims`, too.
    """

    def __init__(self, converted: str, arrays: Mapping[str, str]) -> None:
        self._converted, self.arrays = converted, dict(arrays)
        self.unknown: list[str] = []

    def converts(self, call: ast.Call) -> bool:
        """Whether a call makes an array of the tensor: `np.asarray(out)`."""
        given = [ast.unparse(each) for each in call.args]
        return callee(call)[1] in ("array", "asarray") and _is_of_numpy(call.func) and given == [self._converted]

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id not in self.arrays or not isinstance(node.ctx, ast.Load) or self._is_several(node):
            return node
        made = _of_torch("as_tensor", [node])
        if self.arrays[node.id] == "f":  # NumPy's are of twice the precision
            made.keywords.append(ast.keyword("dtype", ast.parse("torch.float32", mode="eval").body))
        return made

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        receiver, function = callee(node)
        if self.converts(node):
            return node.args[0]
        if function == "numpy" and receiver is not None and not node.args:
            return _attached(receiver)
        if function == "astype" and receiver is not None:
            known = isinstance(receiver, ast.Call) and bool(receiver.keywords) and callee(receiver)[1] == "as_tensor"
            return receiver if known else ast.Call(ast.Attribute(receiver, "float", ast.Load()), [], [])
        if function in _BACK and library(node.func) == "torch" and node.args:
            return _of_torch("stack", node.args[:1]) if isinstance(node.args[0], _SEVERAL) else node.args[0]
        return self._of_numpy(node) if _is_of_numpy(node.func) and not _is_number(node) else node

    def _of_numpy(self, node: ast.Call) -> ast.expr:
        _, function = callee(node)
        first, rest = next(iter(node.args), None), node.args[1:]
        keywords = [_renamed(function, each) for each in node.keywords]
        if function in ("std", "var") and not any(each.arg == "correction" for each in keywords):
            keywords = [*keywords, ast.keyword("correction", ast.Constant(0))]  # torch has 1
        if function in ("max", "min") and (rest or keywords):  # torch.max of a dimension has the positions, too
            function = f"a{function}"
        if first is not None and self._is_several(first) and function in _REDUCED:
            many = ast.ListComp(first.elt, first.generators) if isinstance(first, ast.GeneratorExp) else first
            return ast.Call(ast.Attribute(_of_torch("stack", [many]), function, ast.Load()), rest, keywords)
        other = _RENAMED.get(function, function)
        spaces = (("", torch), ("fft.", torch.fft), ("linalg.", torch.linalg))
        path = next((f"{at}{other}" for at, held in spaces if other in vars(held)), "")
        if not path or function in ("corrcoef", "gradient"):  # torch's take and return something else
            self.unknown.append(f"{ast.unparse(node.func)}()")
            return node
        return ast.Call(ast.parse(f"torch.{path}", mode="eval").body, node.args, keywords)

    def _is_several(self, node: ast.expr) -> bool:
        return isinstance(node, _SEVERAL) or (isinstance(node, ast.Name) and self.arrays.get(node.id) == "several")


def _renamed(function: str, given: ast.keyword) -> ast.keyword:
    """An argument of NumPy's under its other name in PyTorch, where it has one."""
    if function in _OF_DIMS and given.arg == "axis":
        several = isinstance(given.value, ast.Tuple | ast.List)
        return ast.keyword("dims", given.value if several else ast.Tuple([given.value], ast.Load()))
    return ast.keyword("correction", given.value) if given.arg == "ddof" else given


def _is_of_numpy(node: ast.expr) -> bool:
    return (meaning(node) or "").partition(".")[0] in ("numpy", "scipy")


def _is_number(call: ast.Call) -> bool:
    """Whether a function of NumPy is given nothing but numbers, `np.sqrt(np.pi)`: those of torch take tensors."""
    names = [each for given in call.args for each in ast.walk(given) if isinstance(each, ast.Name)]
    return bool(call.args) and all(map(_is_of_numpy, names))


def _of_torch(function: str, given: list[ast.expr]) -> ast.Call:
    return ast.Call(ast.Attribute(ast.Name("torch", ast.Load()), function, ast.Load()), given, [])


def _attached(node: ast.expr) -> ast.expr:
    """A tensor without what detaches it for NumPy: `out` of `out.detach().cpu()`."""
    while isinstance(node, ast.Call) and callee(node)[1] in ("detach", "cpu") and callee(node)[0] is not None:
        node = node.func.value  # type: ignore[attr-defined]  # a method, as it has a receiver
    return node.value if isinstance(node, ast.Attribute) and node.attr == "data" else node
