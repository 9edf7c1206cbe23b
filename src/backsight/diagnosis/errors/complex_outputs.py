"""A complex loss: the statement that squares complex values, and how the square of their magnitude is written."""

from __future__ import annotations

import ast
import copy
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, cast

import torch

from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.evidence.gradients import is_plain
from backsight.diagnosis.evidence.spoken import called, passed
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import described, failing, listed, shown
from backsight.findings.evidence import Evidence
from backsight.snapshot import survey
from backsight.source import Place, assignments, only, statement_at
from backsight.source.bindings import bound
from backsight.source.body import callee, dotted, expressions, given_to, last_name
from backsight.source.definitions import values_of
from backsight.source.edits import on_line, without_marks, write
from backsight.source.rewriting import rewritten, simple
from backsight.story.failure import Failure
from backsight.story.handed import handed
from backsight.story.holders import below, given
from backsight.story.memory import is_tensor
from backsight.story.sections import Section, sections
from backsight.tape import Graph, Node
from backsight.tracing import current

_REAL = frozenset({"abs", "absolute", "angle", "real", "imag", "view_as_real"})
_COUNTS = frozenset({"numel", "size", "dim", "ndimension", "nelement"})


def complex_output(failure: Failure) -> Finding:
    """Say where the loss became complex, and what real number to minimize."""
    root = next((each for each in failure.roots if is_tensor(each) and each.is_complex()), None)
    name = called(failure, root) if root is not None else ""
    what = f"a {described(root)}" if root is not None else "not a real scalar"
    square = _square(failure, root) if root is not None else None
    call = "autograd.grad()" if failure.call == "grad" else "backward()"
    return explanation(
        f"{name or 'The tensor'} is {what}, but {call} must start from one real number.",
        (
            *((*square.others(), shown(square.place, square.does)) if square else _origins(failure, root)),
            *passed(handed(failure, root)),
            *failing(failure, f"starts from {name or 'it'}."),
        ),
        _fix(simple(name or "loss"), square),
        source=square.place if square else failure.source,
        exact=root is not None,
    )


def _origins(failure: Failure, root: torch.Tensor | None) -> list[Evidence]:
    """The statements that computed complex numbers from real ones, as a watch has seen them."""
    watch = current()
    if root is None or watch is None:
        return []
    made = _turned_complex(survey((root,), frames=failure.frames).graph)
    lines = dict.fromkeys(line for each in made if (line := watch.line_of(each)) is not None)
    return [shown(line, "computes complex numbers from real ones.") for line in list(lines)[:_MOST]]


_MOST = 3


class _Square(NamedTuple):
    """Where complex values are squared, what they are called, and the statement with their magnitude instead.

    by_conjugate: whether they are multiplied by their own conjugates, so that only the dtype is complex.
    is_complex: whether what is squared is known to be complex.
    later: later statements that are complex for other reasons, each with its line and without that.
    beside: what the square is computed with on the way that is complex, too, and the statement that made it.
    averaged: the mean or sum of differences that is squared, in which they cancel; its magnitude, squared.
    """

    place: Place
    operand: str
    mended: str
    by_conjugate: bool
    is_complex: bool
    later: tuple[str, ...] = ()
    beside: tuple[tuple[str, Place | None], ...] = ()
    averaged: str = ""

    def others(self) -> Iterator[Evidence]:
        """The statements that make what else is complex."""
        for name, made in self.beside:
            if made is not None:
                yield shown(made, f"makes {name}, which is complex, too.")

    @property
    def does(self) -> str:
        if self.by_conjugate:
            return f"multiplies {self.operand} by its conjugate: the imaginary part is 0, but the dtype stays complex."
        return f"squares {self.operand}, and so leaves a complex number."


def _fix(name: str, square: _Square | None) -> str:
    if square is None:
        return (
            f"Take the magnitude of the elements that {name} is computed from, x.abs() or x.abs() ** 2, before their "
            f"sum or mean. {name}.real ignores the imaginary part: it is right only where that part is 0 but for "
            "rounding, as in the sum of x * x.conj()."
        )
    line = square.place.line
    how = f"square the magnitude of {square.operand} instead"
    how = f"write `{square.mended}`{write(square.place, square.mended)}" if square.mended else how
    how += "".join(f", and {each}" for each in square.later)
    how = how if square.mended else without_marks(how)
    names = listed([name for name, _ in square.beside])
    if square.beside and not square.mended:
        return f"On line {line}, {how}, and make {names} real, too: otherwise the loss stays complex."
    if square.beside:
        return (
            f"On line {line}, {how}: the squared magnitude is real, and so is the magnitude of {names}. Leave {names} "
            f"out if the error does not need {'them' if len(square.beside) > 1 else 'it'}. {name}.real and "
            f"{name}.abs() would silence the error, but minimize something else."
        )
    if square.by_conjugate:
        return f"On line {line}, {how}: the squared magnitude is the same number, as a real one."
    if square.averaged and square.mended:
        return (
            f"On line {line}, {how}: the squared magnitudes are real. {square.averaged} is real, too, but the "
            "differences cancel in it before they are squared."
        )
    return (
        f"On line {line}, {how}: the squared magnitude is real. {name}.real and {name}.abs() would silence the error, "
        "but minimize something else."
    )


def _square(failure: Failure, root: torch.Tensor) -> _Square | None:
    """The one statement on the way to a complex loss that squares complex values, as a watch or the text tells."""
    graph = survey((root,), frames=failure.frames).graph
    squaring = [each for each in graph.nodes if _squared(each) is not None]
    watch = current()
    lines = {line for each in squaring if watch is not None and (line := watch.line_of(each)) is not None}
    every = [each for section in sections(failure) for each in _squares(section, squaring)]
    seen = {(each.file, each.line) for each in lines}
    seen &= {(each.place.file, each.place.line) for each in every}
    found = [each for each in every if not seen or (each.place.file, each.place.line) in seen]
    likely = [each for each in found if each.is_complex] or found
    if len({*likely}) > 1:
        likely = _by_the_only_conjugate(graph, likely, squaring)
    return likely[0] if len({*likely}) == 1 else None


def _by_the_only_conjugate(graph: Graph, likely: list[_Square], squaring: Sequence[Node]) -> list[_Square]:
    """Of several squares that with a conjugate, whose result is real, if all that is complex comes through it."""
    found = [each for each in likely if each.by_conjugate]
    products = [each for each in squaring if each.op == "Mul" and any(one.op == "Conj" for one in given(each))]
    return found if len(products) == 1 and not _turned_complex(graph, {products[0].index}) else []


def _turned_complex(graph: Graph, without: Collection[int] = ()) -> list[Node]:
    """The operations behind a loss that gave complex numbers for real ones, as far as none of `without` leads there."""
    reached = below(graph, [root for root, _ in graph.root_edges], without=without)
    nodes = (graph.nodes[index] for index in reached if index not in without)
    return [each for each in nodes if _is_complex_node(each) and not any(map(_is_complex_node, given(each)))]


def _is_complex_node(node: Node) -> bool:
    return node.dtype is not None and node.dtype.is_complex


def _squared(node: Node) -> str | None:
    """The operation whose complex result a node of the graph squares; None where it does nothing of the kind."""
    if node.dtype is None or not node.dtype.is_complex or node.op not in ("Pow", "Mul"):
        return None
    factors = [_without_conjugate(each.node) for each in node.inputs if each is not None]
    ops = {each.op for each in factors}
    return ops.pop() if len(ops) == 1 and len(factors) == (2 if node.op == "Mul" else 1) else None


def _without_conjugate(node: Node) -> Node:
    first = node.inputs[0] if node.op == "Conj" else None
    return first.node if first is not None else node


def _squares(section: Section, squaring: Sequence[Node]) -> Iterator[_Square]:
    """The statements of a section that may run one of these operations as the square of a complex value."""
    for line in section.lines():
        statement = statement_at(section.body, line)
        pairs = [(each, base) for each in expressions(statement) if (base := _base(each)) is not None]
        known = [(pair, _is_complex(section, *pair, squaring)) for pair in pairs]
        is_complex = any(sure for _, sure in known)
        pairs = [pair for pair, sure in known if (sure if is_complex else sure is None)]
        if statement is None or not pairs:
            continue
        whole, base = pairs[0]
        text = section.body.text(base)
        real = {each: _magnitude(section, each, base) for each, base in pairs}
        others = list(_beside(section, statement, [*real]))
        real |= {each: f"abs({section.body.text(each)})" for each, _ in others}
        casts = {each: _without_cast(section, each, real) for each in _casts(section, statement, {*real})}
        mended = rewritten(section.body, statement, casts | real)
        later, after = _later(section, statement)
        others += after
        mended = mended if all(is_factor for _, is_factor in others) else ""
        names = dict.fromkeys(section.body.text(each) for each, _ in others)
        beside = tuple((each, only(assignments(section.body, each, before=line))) for each in names)
        place = section.body.place(statement)
        averaged = f"{simple(text)}.abs() ** 2" if _of_differences(section, base) else ""
        yield _Square(place, text, mended, _is_by_conjugate(whole), is_complex, later, beside, averaged)


def _later(section: Section, square: ast.stmt) -> tuple[tuple[str, ...], list[tuple[ast.expr, bool]]]:
    """How later statements are written that ask for a complex dtype or compute with complex numbers, and these."""
    found, others, names = list[str](), list[tuple[ast.expr, bool]](), {*bound(square)}
    for line in sorted(each for each in section.lines() if each > square.lineno):
        statement = statement_at(section.body, line)
        reads = [each for each in expressions(statement) if dotted(each) in names] if statement is not None else []
        if statement is None:
            continue
        names |= {*bound(statement)} if reads else set()
        beside = list(_beside(section, statement, reads))
        real = {each: f"abs({section.body.text(each)})" for each, _ in beside}
        changes = real | {each: _without_cast(section, each, real) for each in _casts(section, statement)}
        new = rewritten(section.body, statement, changes) if changes else ""
        found += [on_line(section.body.place(statement), new)] if new else []
        others += beside
    return tuple(found), others


def _beside(section: Section, statement: ast.stmt, inside: Sequence[ast.expr]) -> Iterator[tuple[ast.expr, bool]]:
    """What these are combined with that is complex, and whether as a factor; nothing where the result is made real."""
    around = {id(one): each for each in ast.walk(statement) for one in ast.iter_child_nodes(each)}
    own, seen = {*map(id, inside)}, set[int]()
    for each in inside:
        node, found = cast("ast.AST", each), list[tuple[ast.expr, bool]]()
        while (outer := around.get(id(node))) is not None:
            if isinstance(outer, ast.Call) and callee(outer)[1] in _REAL:
                found = []
                break
            other = (outer.left if node is outer.right else outer.right) if isinstance(outer, ast.BinOp) else None
            if isinstance(outer, ast.BinOp) and other is not None and own.isdisjoint(map(id, ast.walk(other))):
                found += [(other, isinstance(outer.op, ast.Mult | ast.Div))] if _holds(section, other) else []
            node = outer
        yield from ((other, is_factor) for other, is_factor in found if id(other) not in seen)
        seen |= {id(other) for other, _ in found}


def _holds(section: Section, node: ast.expr) -> bool:
    """Whether an expression is complex, by what its variables hold."""
    match node:
        case ast.Constant():
            return isinstance(node.value, complex)
        case ast.UnaryOp(operand=operand):
            return _holds(section, operand)
        case ast.BinOp(left=left, right=right):
            return _holds(section, left) or _holds(section, right)
        case ast.Call() as call if callee(call)[1] not in _REAL | _COUNTS and hasattr(torch.Tensor, callee(call)[1]):
            return any(_holds(section, each) for each in given_to(call))
    value = section.value(dotted(node) or "")
    return isinstance(value, complex) or (is_tensor(value) and value.is_complex())


def _casts(section: Section, statement: ast.stmt, around: Collection[ast.expr] = ()) -> Iterator[ast.Call]:
    """The outermost calls that ask for a complex dtype, around one of these, and whose magnitude nothing takes."""
    stack: list[ast.AST] = [statement]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Call) and callee(node)[1] in _REAL:
            continue
        if isinstance(node, ast.Call) and _without_complex(section, node) is not node:
            if not around or not {*map(id, around)}.isdisjoint(map(id, ast.walk(node))):
                yield node
            continue
        stack += [each for each in ast.iter_child_nodes(node) if not isinstance(each, ast.stmt)]


def _without_complex(section: Section, call: ast.Call) -> ast.expr:
    """A call without the complex dtype that it asks for; the call itself where it asks for none."""
    receiver, method = callee(call)
    given = [*call.args, *(each.value for each in call.keywords)]
    if receiver is not None and (method in _TO_COMPLEX or (method in ("to", "type") and len(given) == 1)):
        return receiver if not given or _is_complex_dtype(section, given[0]) else call
    kept = [each for each in call.keywords if each.arg != "dtype" or not _is_complex_dtype(section, each.value)]
    return call if len(kept) == len(call.keywords) else ast.Call(call.func, call.args, kept)


_TO_COMPLEX = frozenset({"cfloat", "cdouble"})


def _is_complex_dtype(section: Section, node: ast.expr) -> bool:
    value = section.value(dotted(node) or "")
    if isinstance(value, torch.dtype):
        return value.is_complex
    if isinstance(written := getattr(torch, last_name(node), None), torch.dtype):
        return written.is_complex
    return isinstance(node, ast.Attribute) and node.attr == "dtype"  # the loss is complex: with a real one it were not


def _without_cast(section: Section, call: ast.Call, real: Mapping[ast.expr, str] = MappingProxyType({})) -> str:
    """A call that asks for a complex dtype, without it, and with these expressions in it replaced."""
    memo = {id(node): ast.parse(new, mode="eval").body for node, new in real.items()}
    written = _Uncast(section).visit(copy.deepcopy(call, memo))
    return simple(ast.unparse(written))


class _Uncast(ast.NodeTransformer):
    def __init__(self, section: Section) -> None:
        self._section = section

    def visit_Call(self, node: ast.Call) -> ast.AST:  # the name that ast gives it
        self.generic_visit(node)
        return _without_complex(self._section, node)


def _is_complex(section: Section, whole: ast.expr, base: ast.expr, squaring: Sequence[Node]) -> bool | None:
    """Whether a square is of complex values, by what its base holds or is computed by; None where neither tells."""
    operation = "Mul" if isinstance(whole, ast.BinOp) and isinstance(whole.op, ast.Mult) else "Pow"
    made = {_squared(each) for each in squaring if each.op == operation}
    if not made or any(isinstance(each, ast.Call) and callee(each)[1] in _REAL for each in ast.walk(base)):
        return False
    value = section.value(dotted(base) or "")
    if value is not None:
        return is_tensor(value) and value.is_complex()
    operations = _operations(section, base)
    return None if operations is None else not made.isdisjoint(operations)


def _operations(section: Section, node: ast.expr) -> Collection[str] | None:
    """What an expression may be in a graph: no operation of a constant; None where the text does not tell."""
    if (name := dotted(node)) is not None:
        values = values_of(section.body, name, node.lineno)
        return _operations(section, values[0]) if len(values) == 1 and dotted(values[0]) is None else None
    match node:
        case ast.Constant():
            return ()
        case ast.BinOp(op=operator):
            return _OPERATIONS.get(type(operator))
        case ast.Call() as call:
            receiver, method = callee(call)
            if is_plain(node):
                return ()
            return _OF_FFT if method in _FFT and (dotted(receiver) or "fft").endswith("fft") else None
    return None


_OPERATIONS: Mapping[type[ast.operator], Collection[str]] = {
    ast.Add: ("Add",),
    ast.Sub: ("Sub", "Rsub"),
    ast.Mult: ("Mul",),
    ast.Div: ("Div",),
}
_FFT = frozenset({"fft", "ifft", "rfft", "fft2", "ifft2", "rfft2", "fftn", "ifftn", "rfftn"})
_OF_FFT = ("FftR2C", "FftC2C")


def _base(node: ast.expr) -> ast.expr | None:
    """What an expression is the square of: `e` of `e ** 2`, `e * e`, `e * e.conj()`, `e.pow(2)`, `torch.square(e)`."""
    match node:
        case ast.BinOp(base, ast.Pow(), ast.Constant(2)):
            return base
        case ast.BinOp(left, ast.Mult(), right) if ast.dump(_conjugated(left)) == ast.dump(_conjugated(right)):
            return _conjugated(left)
        case ast.Call() as call:
            match callee(call)[1], given_to(call):
                case ("square", [base]) | ("pow", [base, ast.Constant(2)]):
                    return base
    return None


def _conjugated(node: ast.expr) -> ast.expr:
    """`e` of `e.conj()`; any other expression itself."""
    match node:
        case ast.Call() as call if callee(call)[1] == "conj" and len(given_to(call)) == 1:
            return given_to(call)[0]
    return node


def _is_by_conjugate(node: ast.expr) -> bool:
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return False
    return (_conjugated(node.left) is node.left) != (_conjugated(node.right) is node.right)


def _magnitude(section: Section, whole: ast.expr, base: ast.expr) -> str:
    """The square of the magnitude, as the expression that it replaces binds: `e.abs() ** 2`, or a call."""
    if inside := _of_differences(section, base):
        return inside
    magnitude = f"{simple(section.body.text(base))}.abs()"
    return f"{magnitude} ** 2" if isinstance(whole, ast.BinOp) else f"{magnitude}.square()"


def _of_differences(section: Section, node: ast.expr) -> str:
    """The mean or sum of the squared magnitudes of differences, for a mean or sum of the differences themselves."""
    if not isinstance(node, ast.Call) or callee(node)[1] not in ("mean", "sum") or not (taken := given_to(node)):
        return ""
    of, *rest = taken
    made = values_of(section.body, name, node.lineno) if (name := dotted(of)) is not None else [of]
    if not made or not all(isinstance(each, ast.BinOp) and isinstance(each.op, ast.Sub) for each in made):
        return ""
    named = [each for each in node.keywords if each.arg != "dtype"]
    given = ", ".join([*map(section.body.text, rest), *map(ast.unparse, named)])
    return f"{simple(section.body.text(of))}.abs().pow(2).{callee(node)[1]}({given})"
