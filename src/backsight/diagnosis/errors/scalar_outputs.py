"""BS212: backward was called on a tensor of more than one element, or on a complex number."""

from __future__ import annotations

import ast
import functools
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from backsight.diagnosis.errors.complex_outputs import complex_output
from backsight.diagnosis.errors.gradient_call import gradient_calls
from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.evidence.spoken import called, passed
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import described, if_known, listed, shown
from backsight.findings.evidence import Fact
from backsight.naming.plain import namespace
from backsight.snapshot import survey
from backsight.source import Body, Place, calls_of, only, read_at, statement_at
from backsight.source.bindings import bound
from backsight.source.body import callee, calls_in, dotted, expressions, given_to, is_constant, keyword, statements
from backsight.source.choices import Choice, another_text, literals
from backsight.source.definitions import values_of
from backsight.source.edits import OR, Edit, on_line, put, without_marks, write
from backsight.source.rewriting import rewritten, simple
from backsight.story.evaluated import value_of
from backsight.story.failure import Failure
from backsight.story.files import user_files
from backsight.story.handed import handed
from backsight.story.holders import given, node_of, results_in, structure
from backsight.story.memory import is_tensor, maker_of, shape_of
from backsight.story.sections import Section, sections
from backsight.story.trained import trained
from backsight.story.unmatched import unmatched
from backsight.tape import Graph, Node
from backsight.tracing import Line, current

_REDUCTION = re.compile(r"Sum|Mean|Prod|Norm|LinalgVectorNorm|Logsumexp|A?[Mm]ax|A?[Mm]in|Std|Var|Dot|Mv")


@explains("BS212", r"grad can be implicitly created only for (real )?scalar outputs")
def scalar_outputs(failure: Failure, match: re.Match[str]) -> Finding:
    """Say what shape the loss has, where its reduction was left out, and how to make it one number."""
    if match.group(1):
        return complex_output(failure)
    root = next((each for each in failure.roots if _is_culprit(each)), None)
    name = called(failure, root) if root is not None else ""
    known = handed(failure, root) if failure.call == "backward" else None
    call = "autograd.grad()" if failure.call == "grad" else "backward()"
    what = f"a {described(root)}" if root is not None else "not a scalar"
    several = root is not None and root.numel() != 1
    missed = next(unmatched(failure, _would_reduce), None) if several else None
    unreduced = _unreduced(failure) if several and missed is None else None
    weighted = _weighted(failure) if unreduced else None
    meant = _meant(failure, root) if several and root is not None else ""
    by_row = root is not None and _is_by_row(failure, root)
    open_yet = several and root is not None and not (missed or unreduced or meant)
    rows = crossed(failure, root, "sum" if by_row else "mean") if open_yet and root is not None else None
    is_open = open_yet and rows is None
    parts = open_terms(failure, root) if is_open and failure.call != "grad" and root is not None else None
    left = _left_open(failure, root) if is_open and parts is None and root is not None else None
    given = known.given if known else None
    reduced = _fix(failure, name or "loss", None if weighted else unreduced, given, by_row)
    return explanation(
        f"{name or 'The tensor'} is {what}, but {call} must start from one number.",
        (
            shown(missed.choice.place, missed.does) if missed else None,
            if_known(left, f"leaves {_many(root)} instead of one."),
            shown(rows.place, rows.does) if rows else None,
            shown(parts.place, f"{_adds(parts, root)}.") if parts else None,
            f"{meant} is a scalar computed from {name}." if meant else None,
            *passed(known),
            *_evidence(failure, root, name, unreduced, weighted),
        ),
        f"{meant}.backward() may be what you want{_from(failure, meant)}: {meant} is a scalar computed from {name}."
        if meant
        else missed.fix
        if missed
        else f"Reduce {'it' if len(parts.terms) == 1 else 'them'}, too: {parts.fix}."
        if parts
        else reduced
        if rows is None
        else f"{rows.fix}: one entry of each row."
        if rows.is_last
        else f"{rows.fix}, one entry of each row. Then {reduced[0].lower()}{reduced[1:]}",
        source=(missed and (missed.written or missed.choice.place))
        or (parts and parts.place)
        or (failure.call != "grad" and (weighted or unreduced or (rows and rows.place) or left))
        or failure.source,
        exact=root is not None,
    )


def _adds(parts: OpenTerms, root: torch.Tensor | None) -> str:
    each = "" if len(parts.terms) == 1 else " each"
    return f"leaves {_many(root)}{each} in {listed(parts.terms, 3)}, and one in the other terms of the sum"


_HOOKING = ("register_forward_hook", "register_full_backward_hook", "register_hook", "retain_grad")


def _is_by_row(failure: Failure, root: torch.Tensor) -> bool:
    """Whether the gradient is wanted for each row of an input, or of an activation: nothing is trained here."""
    if trained(failure).owned is not None or root.dim() == 0:
        return False
    leaves = (leaf.tensor() for leaf in survey((root,), frames=failure.frames).graph.leaves)
    inputs = (each for each in leaves if is_tensor(each) and not issubclass(type(each), torch.nn.Parameter))
    return any((shape_of(each) or ())[:1] == root.shape[:1] for each in inputs) or any(
        callee(call)[1] in _HOOKING for _, _, call in calls_of(*user_files(failure))
    )


def _backward_hook(failure: Failure) -> Place | None:
    """Where modules are given a hook that is given gradients of outputs, which may be taken for those of samples."""
    every = calls_of(*user_files(failure))
    return next((body.place(each) for body, each, call in every if callee(call)[1] in _OF_OUTPUTS), None)


_OF_OUTPUTS = ("register_full_backward_hook", "register_backward_hook", "register_full_backward_pre_hook")


def _would_reduce(section: Section, choice: Choice) -> bool:
    """Whether a branch goes on with one number, the sum or mean of everything."""
    results = (each.value for each in choice.inside if isinstance(each, ast.Assign | ast.Return) and each.value)
    calls = (each for value in results for each in ast.walk(value) if isinstance(each, ast.Call))
    return any(_reduces(call) for call in calls)


def _reduces(call: ast.Call) -> bool:
    return callee(call)[1] in ("mean", "sum") and not call.keywords and len(given_to(call)) == 1


def _many(root: torch.Tensor | None) -> str:
    return f"{math.prod(root.shape)} numbers" if root is not None else "several numbers"


def _meant(failure: Failure, root: torch.Tensor) -> str:
    """A variable beside the failing call that holds one number computed from `root`; empty unless there is just one."""
    level = failure.user
    node = maker_of(root)
    if level is None or node is None:
        return ""
    single = {n: v for n, v in level.variables.items() if is_tensor(v) and v.numel() == 1 and results_in(v)}
    found = [name for name, value in single.items() if node_of(structure(value), root) is not None]
    return found[0] if len(found) == 1 else ""


def _left_open(failure: Failure, root: torch.Tensor) -> Line | None:
    """Where the operation ran that should have left one number: an exact answer, if a watch has noted lines.

    That is the sum or mean which gave the tensor its shape, or the last operation of all where there is none.
    """
    watch = current()
    if watch is None or watch.level == "calls":
        return None
    graph = survey((root,), frames=failure.frames).graph
    shape, node = graph.roots[0].shape, graph.roots[0]
    for each in graph.nodes:  # consumers come before producers
        sources = [edge.node for edge in each.inputs if edge is not None]
        if each.shape == shape and any(_size(source.shape) > _size(shape) for source in sources):
            node = each if _REDUCTION.match(each.op) else node
            break
    line = watch.line_of(node)
    return line if line is not None and line.text else None


def _size(shape: tuple[int, ...] | None) -> int:
    return math.prod(shape or ())


def _is_culprit(root: object) -> bool:
    return isinstance(root, torch.Tensor) and root.requires_grad and root.numel() != 1


def _evidence(
    failure: Failure, root: torch.Tensor | None, name: str, unreduced: Place | None, weighted: Place | None
) -> Iterator[Fact]:
    if unreduced is not None and unreduced != weighted:
        also = "." if weighted else " instead of their mean or sum."
        yield shown(unreduced, f"keeps the loss of every element{also}")
    if weighted is not None:
        yield shown(weighted, f"weights the elements, and leaves {_many(root)}.")
    if failure.user and root is not None and root.numel() != 1:
        yield shown(failure.user.place, f"would start from {math.prod(root.shape)} numbers at once.")
    elif failure.user:
        yield shown(failure.user.place, f"starts from {name or 'it'}.")


def _fix(failure: Failure, name: str, unreduced: Place | None, given: Place | None, by_row: bool) -> str:
    tensor = simple(name)
    if failure.call == "grad":
        return (
            f"Pass {tensor}.sum(){_asked(failure, summed=True)}: if each value of {name} is computed from its own row "
            f"of the input, every row gets its own derivative. {OR}Or weight the values yourself with "
            f"grad_outputs=torch.ones_like({name}){_asked(failure, summed=False)}."
        )
    if given:
        mean, total = (put(f"{name} = {tensor}.{how}()", "above", given) for how in ("mean", "sum"))
        return (
            f"Reduce it to a scalar before line {given.line} passes it: {tensor}.mean(){mean}, {OR}or "
            f"{tensor}.sum(){total}."
        )
    level = failure.user
    is_kept = (
        level is not None and all(part.isidentifier() for part in name.split(".")) and level.value(name) is not None
    )  # who reads it later wants a number
    place = level.place if level is not None and is_kept else None
    before = f"put {name} = {name}.mean() before line {place.line}" if place else ""
    before += str(put(f"{name} = {name}.mean()", "above", place)) if place else ""
    if unreduced:
        after = before or f"call {tensor}.mean().backward() afterwards{_from(failure, f'{tensor}.mean()')}"
        written = [place for file in user_files(failure) for place in literals(file, "none")]
        where = f' with reduction="mean" at {written[0]}' if len(written) == 1 and written[0] != unreduced else ""
        by = where or ", as it does by default"
        reducing = _reducing(written[0] if where else unreduced, is_literal=bool(where))
        return (
            f"Let the loss function reduce{by}{reducing}. {OR}If you need the elements for weights or a mask, {after}."
        )
    if by_row and level is not None:
        summed = f"Call {tensor}.sum().backward(){_from(failure, f'{tensor}.sum()')}"
        if place:
            summed = (
                f"Put {name} = {name}.sum() before line {place.line}{put(f'{name} = {name}.sum()', 'above', place)}"
            )
        return f"{summed}: where each value is computed from its own row of the input, each row gets its own gradient."
    if before and place is not None and (hook := _backward_hook(failure)) is not None:
        total = put(f"{name} = {tensor}.sum()", "above", place)
        return (
            f"P{before[1:]}: then the step does not depend on the number of elements, and what the hook of line "
            f"{hook.line} is given is divided by it. {OR}Or put {name} = {name}.sum() there{total}: then the hook is "
            "given the gradient of each sample as if it were alone, and gradients of parameters are sums."
        )
    if before:
        grows = f"does not grow with the number of elements, as that of {tensor}.sum() does"
        return f"P{before[1:]}: the gradient of a mean {grows}."
    return (
        f"Call {tensor}.mean().backward(){_from(failure, f'{tensor}.mean()')}, whose gradient does not grow with the "
        f"number of elements, {OR}or {tensor}.sum().backward(){_from(failure, f'{tensor}.sum()')}."
    )


def _from(failure: Failure, text: str) -> Edit | str:
    """The failing statement, with backward run on something else."""
    level = failure.user
    body, statement = (level.body, level.statement) if level is not None else (None, None)
    run = only(each for each in calls_in(statement) if callee(each)[1] == "backward" and callee(each)[0] is not None)
    root = callee(run)[0] if run is not None else None
    if level is None or body is None or statement is None or run is None or root is None or run.args:
        return ""
    scaled = root.args if isinstance(root, ast.Call) and callee(root)[1] == "scale" else []
    new = rewritten(body, statement, {scaled[0]: text} if scaled else {run.func: f"{text}.backward"})
    return write(level.place, new) if new else ""


def _asked(failure: Failure, *, summed: bool) -> Edit | str:
    """The failing statement, with the derivative taken of a sum, or with a weight for each value."""
    level = failure.user
    call = only(gradient_calls(level.body, level.statement)) if level is not None else None
    output = (call.output or keyword(call.node, "outputs")) if call is not None else None
    if call is None or output is None or isinstance(output, ast.List | ast.Tuple | ast.Starred) or call.is_weighted:
        return ""
    text, node = call.body.text(output), call.body.text(call.node)
    weighted = f"{node[:-1].rstrip(', ')}, grad_outputs=torch.ones_like({text}))"
    new = call.rewritten({output: f"{simple(text)}.sum()"} if summed else {call.node: weighted})
    return write(call.place, new) if new else ""


def _reducing(at: Place, *, is_literal: bool) -> Edit | str:
    """The statement that asks for every element, without that; of a text that stands elsewhere, with another."""
    if is_literal:
        return another_text(at, "none", "mean")
    body, statement = read_at(at)
    if body is None or statement is None:
        return ""
    given = [each for call in calls_in(statement) for each in call.keywords if each.arg in ("reduction", "reduce")]
    new = rewritten(body, statement, {each.value: '"mean"' if each.arg == "reduction" else "True" for each in given})
    return write(at, new) if new and given else ""


def _weighted(failure: Failure) -> Place | None:
    """The last statement that multiplies, divides or selects the elements of such a loss: they are wanted one by one,
    and a loss that reduces them would leave nothing to weight."""
    for section in sections(failure):
        body = section.body
        for call, place in section.calls():
            if not _keeps_elements(section, call):
                continue
            made = statement_at(body, *place.position)
            names = bound(made) if made else set()
            found = made if made and _weights(made, set(), call) else None
            for each in (each for each in statements(body.node) if each.lineno > place.line):
                if isinstance(each, ast.Assign | ast.AugAssign | ast.AnnAssign | ast.Return) and _weights(each, names):
                    names |= bound(each)
                    found = each
            return body.place(found) if found else None
    return None


def _weights(statement: ast.stmt, names: set[str], call: ast.Call | None = None) -> bool:
    """Whether a statement computes with the elements, by name or as the value of `call`, and with something else."""

    def holds(node: ast.expr) -> bool:
        return any(each is call or dotted(each) in names for each in ast.walk(node) if isinstance(each, ast.expr))

    for node in expressions(statement):
        match node:
            case ast.BinOp(left, ast.Mult() | ast.Div(), right):
                other = left if holds(right) else right
                if holds(left) != holds(right) and not isinstance(other, ast.Constant):
                    return True
            case ast.Subscript(ctx=ast.Load()) if holds(node.value):
                return True
            case ast.Call(func=ast.Attribute(value, "mul" | "masked_select" | "masked_fill")) if holds(value):
                return True
    return False


def _unreduced(failure: Failure) -> Place | None:
    """The statement that computes a loss without a reduction, if the text or a loss module shows one."""
    for section in sections(failure):
        for call, place in section.calls():
            if _keeps_elements(section, call):
                return place
    return None


def _keeps_elements(section: Section, call: ast.Call) -> bool:
    given = keyword(call, "reduction")
    if isinstance(given, ast.Constant) and given.value == "none":
        return True
    if is_constant(keyword(call, "reduce"), False):
        return True
    name = dotted(call.func)
    loss = section.value(name) if name else None
    if type(loss) is functools.partial and loss.keywords.get("reduction") == "none":
        return True
    return issubclass(type(loss), torch.nn.Module) and (namespace(loss) or {}).get("reduction") == "none"


# One entry of each row was meant, and `scores[:, classes]` took all of these columns from every row.


@dataclass(frozen=True)
class Crossed:
    """The statement that pairs every row with every index; what it does, and how it takes one entry of each row.

    is_last: whether that gives the value that is differentiated, and so reduces it, too.
    """

    place: Place
    does: str
    fix: str
    is_last: bool


def crossed(failure: Failure, root: torch.Tensor, reduction: str) -> Crossed | None:
    """Return the index on the way to a square `root` that holds one position for each row; `reduction`: `sum` or
    `mean`."""
    rows = root.shape[0] if root.dim() == 2 and root.shape[0] == root.shape[1] else 0
    for section in sections(failure) if rows > 1 else ():
        for line in section.lines():
            statement = statement_at(section.body, line)
            for node in expressions(statement):
                if statement is not None and isinstance(node, ast.Subscript) and _is_per_row(section, node, rows):
                    return _crossed(section, statement, node, rows, reduction)
    return None


def _is_per_row(section: Section, node: ast.Subscript, rows: int) -> bool:
    """Whether an index takes all rows, `[:, each]`, and a position for each of them."""
    match node.slice:
        case ast.Tuple(elts=[ast.Slice(lower=None, upper=None, step=None), each]):
            pass
        case _:
            return False
    base, held = section.value(dotted(node.value) or ""), section.value(dotted(each) or "")
    if is_tensor(base) and (base.dim() != 2 or len(base) != rows):
        return False
    if is_tensor(held):
        return held.dtype == torch.int64 and shape_of(held) == (rows,)
    found = (callee(call)[1] for call in ast.walk(each) if isinstance(call, ast.Call))
    return any(name in ("argmax", "max", "argmin", "min", "multinomial") for name in found)


def _crossed(section: Section, statement: ast.stmt, node: ast.Subscript, rows: int, reduction: str) -> Crossed:
    body = section.body
    index = node.slice.elts[1] if isinstance(node.slice, ast.Tuple) else node.slice
    base, each = simple(body.text(node.value)), body.text(index)
    taken = f"{base}.gather(1, {simple(each)}.unsqueeze(1))"
    outer = _squeezed(statement, node)
    goals = {goal for goal, _ in section.goals} if section.level is not None else set()
    is_last = getattr(statement, "value", None) is outer and bool(bound(statement) & goals)
    line = rewritten(body, statement, {outer: f"{taken}.{reduction}()" if is_last else f"{taken}.squeeze(1)"})
    place = body.place(statement)
    fix = f"O{on_line(place, line)[1:]}" if line else f"Use {taken} on line {statement.lineno}"
    does = f"takes from each of {rows} rows the columns of all rows, {rows} by {rows} numbers."
    return Crossed(place, does, fix, is_last and bool(line))


def _squeezed(statement: ast.stmt, node: ast.expr) -> ast.expr:
    """An expression with the `.squeeze()` and the like around it, which would drop nothing any more."""
    outer = node
    for each in reversed(list(expressions(statement))):
        if isinstance(each, ast.Call) and callee(each)[0] is outer and callee(each)[1] in ("squeeze", "flatten"):
            outer = each
    return outer


# The terms of a sum that were not reduced, where the others were: `x.pow(2).sum() + y.pow(2)`.


_REDUCING = ("sum", "mean", "norm", "prod", "max", "min", "median")
_SCALED = ("Mul", "Div")


@dataclass(frozen=True)
class OpenTerms:
    """The statement that has such terms, the terms, and how they are reduced as the others are."""

    place: Place
    terms: tuple[str, ...]
    fix: str


def open_terms(failure: Failure, root: torch.Tensor) -> OpenTerms | None:
    """Return the terms that leave several numbers in a sum: the graph counts them, and the text shows which they are.

    They are summed where another term is the sum of as many rows; the gradient of a mean does not grow with them.
    """
    graph = survey((root,), frames=failure.frames).graph
    parts = [*_parts(graph)]
    many = sum(_size(each.shape) > 1 for each in parts)
    sums = (each for each in parts if each.op == "Sum" and _size(each.shape) == 1)
    summed = any(at.shape and at.shape[:1] == root.shape[:1] for each in sums for at in given(each))
    for section in sections(failure) if 0 < many < len(parts) else ():
        for goal, line in section.goals:
            statement = statement_at(section.body, line)
            whole = next((n for n in ast.walk(statement or ast.Pass()) if _is(section.body, n, goal)), None)
            terms = [*_terms(section, whole)] if isinstance(whole, ast.expr) else []
            found = [each for each in terms if not _is_reduced(section, each)]
            if len(found) == many and len(terms) > many:
                return _told(section.body, found, "sum" if summed else "mean")
    return None


def _is(body: Body, node: ast.AST, text: str) -> bool:
    return isinstance(node, ast.expr) and body.text(node) == text


def _parts(graph: Graph) -> Iterator[Node]:
    """The terms of the sum that a graph ends in."""
    queue = list(graph.roots)
    for node in queue:  # grows as we go
        inputs = given(node)
        scaled = node.op == "Neg" or (node.op in _SCALED and len(inputs) == 1)
        if _size(node.shape) > 1 and (node.op in ("Add", "Sub") or scaled):
            queue += inputs
        else:
            yield _unscaled(node)


def _unscaled(node: Node) -> Node:
    """A term without its sign and the numbers that it is multiplied by."""
    while node.op in ("Neg", *_SCALED) and len(given(node)) == 1:
        (node,) = given(node)
    return node


def _terms(section: Section, node: ast.expr, depth: int = 0) -> Iterator[ast.expr]:
    """The terms of a sum, without numbers that they are multiplied by; a name stands for what it was given."""
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            yield from _terms(section, inner, depth)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            yield from _terms(section, left, depth)
            yield from _terms(section, right, depth)
        case ast.BinOp(left=number, op=ast.Mult(), right=inner) if _is_number(section, number):
            yield from _terms(section, inner, depth)
        case ast.BinOp(left=inner, op=ast.Mult() | ast.Div(), right=number) if _is_number(section, number):
            yield from _terms(section, inner, depth)
        case ast.Name(id=name) if depth < _DEEPEST:
            values = values_of(section.body, name, node.lineno)
            yield from _terms(section, values[0], depth + 1) if len(values) == 1 else (node,)
        case _:
            yield node


_DEEPEST = 8


def _is_number(section: Section, node: ast.expr) -> bool:
    value = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(value, ast.Constant) or type(value_of(section, value)) in (int, float)


def _is_reduced(section: Section, node: ast.expr) -> bool:
    """Whether the text shows that a term is one number."""
    if not isinstance(node, ast.Call) or keyword(node, "reduction") or keyword(node, "reduce"):
        return False
    _, name = callee(node)
    if name in _REDUCING and len(given_to(node)) == 1 and not node.keywords:
        return True
    loss = section.value(dotted(node.func) or "")
    if issubclass(type(loss), torch.nn.Module):
        return (namespace(loss) or {}).get("reduction") in ("sum", "mean")
    return loss is not None and loss is vars(torch.nn.functional).get(name) and "reduction" in _names(loss)


def _names(function: object) -> tuple[str, ...]:
    code = getattr(function, "__code__", None)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if code is not None else ()


def _told(body: Body, found: list[ast.expr], reduction: str) -> OpenTerms | None:
    statements = [statement_at(body, each.lineno, each.col_offset) for each in found]
    first = statements[0]
    if first is None:
        return None
    new = {each: f"{simple(body.text(each))}.{reduction}()" for each in found}
    edits = []
    for statement in dict.fromkeys(each for each in statements if each is not None):
        here = {each: new[each] for each, at in zip(found, statements, strict=True) if at is statement}
        line = rewritten(body, statement, here)
        there = f"write {listed([*here.values()])} there"
        edits.append(on_line(body.place(statement), line) if line else there)
    fix = " and ".join(edits)
    whole = all(without_marks(each) != each for each in edits)
    return OpenTerms(body.place(first), tuple(map(body.text, found)), fix if whole else without_marks(fix))
