"""Where a gradient's way ends between a tensor and what it was computed from: as a watch has seen it, else as read.

`cuts` reads frames and source text, and weighs each place by what the variables hold; `seen` asks a watch.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import NamedTuple

import numpy
import torch

from backsight.source import Cut, Place, parsed, statement_at
from backsight.source.bindings import names_read, uses
from backsight.source.body import (
    SCOPES,
    Body,
    blocks,
    body_around,
    callee,
    calls_in,
    covers,
    dotted,
    expressions,
    given_to,
    is_constant,
    keyword,
    statements,
)
from backsight.source.cut_rules import Kind, carriers, rule_of
from backsight.source.imports import library
from backsight.source.rewriting import rewritten, with_flag
from backsight.story.behind import Read, Way, comes_of
from backsight.story.failure import Failure, Level
from backsight.story.memory import is_leaf, needs_gradient
from backsight.story.modes import Disabled, disabled_by, enabled_within, in_force, is_sure
from backsight.story.sections import Section, followed, function_called, section_of
from backsight.story.trained import Trained, trained
from backsight.tape import Graph
from backsight.tracing import Line, Severed, current, met

_PLAIN = (bool, int, float, complex, str, bytes, list, tuple, dict, numpy.ndarray, numpy.generic)
_NOT_DATA = (ModuleType, FunctionType, BuiltinFunctionType, type)


@dataclass(frozen=True, eq=False)
class CutOff:
    """A place that cuts a history off.

    verdict: True if it has cut off a history that is there, False if there was none; None where that is not known.
    operand: the name that holds the history, if there is one.
    inside: of a block that records nothing, the statements that would have had a history, and what they read.
    seen: whether a watch has seen it happen.
    calling: the statement in the block through which what is `inside` ran, in another function.
    beside: what else the same statement cuts off on the way to the loss, with a call that can be left out.
    trains: of a block around the whole of a function that runs backward, that function.
    enabled: of a block under inference mode, the block inside that enables gradients in vain.
    around: of a block, what disables gradients further out, and would do so still.
    in_function: of a block, whether the forward of a custom Function runs it, where nothing is recorded anyway.
    before: the cuts that a gradient meets before it comes to this one, by the way with the fewest.
    arrives: whether it comes to something that is trained behind this one, and meets no other.
    """

    section: Section
    cut: Cut
    verdict: bool | None
    operand: str = ""
    inside: tuple[tuple[Place, str], ...] = ()
    seen: bool = False
    calling: Place | None = None
    beside: tuple[CutOff, ...] = ()
    trains: Place | None = None
    enabled: Place | None = None
    around: tuple[CutOff, ...] = ()
    in_function: bool = False
    before: tuple[Cut, ...] = ()
    arrives: bool = False

    @property
    def called(self) -> Place | None:
        """The statement that called the function on which a decorator stands."""
        caller, call = self.section.caller, self.section.call
        is_read = self.cut.place.text.startswith("@") and caller is not None and call is not None
        statement = statement_at(caller.body, call.lineno, call.col_offset) if is_read and caller and call else None
        return caller.body.place(statement) if statement is not None and caller is not None else None

    def is_at(self, place: Place) -> bool:
        return (self.cut.place.file, self.cut.place.line) == (place.file, place.line)

    @property
    def statement(self) -> ast.stmt | None:
        return statement_at(self.section.body, *self.cut.place.position)

    @property
    def node(self) -> ast.expr | None:
        """The expression that cuts, in the syntax tree."""
        return node_of(self.section, self.cut)

    @property
    def operands(self) -> list[str]:
        return operands(self.section, self.cut)

    @property
    def cuts(self) -> tuple[Cut, ...]:
        """All that the statement cuts off."""
        return (self.cut, *(each.cut for each in self.beside))

    @property
    def held(self) -> str:
        """The operand as a person would speak of it: of a module, what it computes."""
        return f"the output of {self.operand}" if self._is_of_module else self.operand

    @property
    def spoken(self) -> str:
        """The same at the beginning of a sentence."""
        return f"The output of {self.operand}" if self._is_of_module else self.operand

    @property
    def behind(self) -> Section:
        """Its function as if it cut nothing off."""
        lifted = {self.cut.place.line} if self.cut.kind == "no_grad" else set()
        return replace(self.section, lifted=self.section.lifted | lifted)

    @property
    def read(self) -> list[Read]:
        """What it cuts off: the parts of its expression; of a block, what the statements inside compute."""
        body = self.section.body
        if self.cut.kind == "no_grad":
            inside = (
                getattr(each, "value", None)
                for each in unrecorded(self.section, self.cut)
                if not _updates(self.section, each)
            )
            return [(body.text(each), each.lineno) for each in inside if isinstance(each, ast.expr)]
        node = self.node
        parts = [each for each, _ in carriers(node)] if node is not None else []
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        return [(body.text(each), self.cut.place.line) for each in parts]

    @property
    def _is_of_module(self) -> bool:
        return issubclass(type(self.section.value(self.operand)), torch.nn.Module)


def cuts(
    failure: Failure, trained: Trained, of: Sequence[torch.Tensor] = (), starts: Sequence[Section] = ()
) -> list[CutOff]:
    """Return every place that may have cut a tensor off, the nearest first, as frames and source text show it.

    The tensor is what backward was called on, or the goals of `starts`; with `of`, only what cuts it off from one of
    these is told.
    """
    found: dict[tuple[object, ...], CutOff] = {}
    way = Way(failure)
    if not starts and (user := failure.user) is not None and user.receiver:
        starts = [section for section in [section_of(user, ((user.receiver, user.line),))] if section is not None]
    for section in starts:
        way.enter(section, section.goals)
    arrived: set[Cut] = set()
    for section, carried, behind in way.steps():
        before = (*behind.before, behind.cut) if isinstance(behind, CutOff) else ()
        if any(trained.carries(section.value(name)) for name in carried.names):
            arrived.update(before[-1:])
        for cut in carried.cuts:
            called = section.call if cut.kind == "gradient" else None  # each call may ask for a graph, or not
            key = (cut.place.file, cut.place.line, cut.expression, called)
            if key not in found:
                each = _weighed(section, cut, trained)
                if cut.kind != "no_grad" or not _covers_level(section, cut):  # what it ran, it ran whatever came before
                    each = replace(each, before=before)
                found[key] = each
                way.enter(each.behind, each.read, each)
    spread = {each.before[-1] for each in found.values() if each.before and each.cut.kind == "index"}
    spread = {each for each in spread if "one_hot(" in each.expression}  # it takes over what is lost already
    every = [each for each in found.values() if not of or comes_of(failure, each.behind, each.read, of)]
    met = {cut for each in every for cut in each.before}  # on the way to those
    every = [each for each in found.values() if each in every or each.cut in met]
    every = [
        replace(each, before=tuple(one for one in each.before if one not in spread))
        for each in every
        if each.cut not in spread
    ]
    return _beside([replace(each, arrives=each.cut in arrived or _is_last(each)) for each in every])


def _is_last(cut: CutOff) -> bool:
    """Whether what it cuts off is known to have a gradient; of a block, whether what it ran is running still."""
    return cut.verdict is True and (cut.cut.kind != "no_grad" or _covers_level(cut.section, cut.cut))


_LEFT_OUT = ("detach", "number")
"""Kinds of cuts that are a call around a tensor, which stays when the call is left out."""


def _beside(every: Sequence[CutOff]) -> list[CutOff]:
    """The same cuts, each with what else its statement cuts off as surely: all of it is to be taken back at once."""
    return [replace(each, beside=tuple(_with(each, every))) for each in every]


def _with(cut: CutOff, every: Sequence[CutOff]) -> Iterator[CutOff]:
    kinds = _LEFT_OUT if cut.cut.kind in _LEFT_OUT else () if cut.cut.kind == "no_grad" else (cut.cut.kind,)
    here = [each for each in every if each.cut.place == cut.cut.place and each.cut.kind in kinds]
    here = [each for each in here if cut.cut not in each.before and each.cut not in cut.before]
    sure = {each.cut.expression: each for each in here if each.verdict is cut.verdict}
    return (each for expression, each in sure.items() if expression != cut.cut.expression)


def choices(failure: Failure, starts: Sequence[Section], of: Sequence[torch.Tensor]) -> Iterator[CutOff]:
    """Yield the comparisons that choose what a value is computed from, `x[norms < limit]`, and read one of these
    tensors: no gradient goes there, so `cuts` does not come to them."""
    for section in followed(list(starts)):
        for line in dict.fromkeys(section.lines()):
            statement = statement_at(section.body, line)
            if not isinstance(statement, ast.Assign | ast.AugAssign | ast.Return):
                continue
            for node in expressions(statement):
                rule = rule_of(node)
                if rule is None or rule.kind != "comparison":
                    continue
                cut = Cut("comparison", section.body.place(statement), section.body.text(node), rule.why)
                found = CutOff(section, cut, True)
                sides = [*given_to(node), callee(node)[0]] if isinstance(node, ast.Call) else []
                read = found.read or [(section.body.text(each), node.lineno) for each in sides if each is not None]
                for each in read:
                    if comes_of(failure, section, [each], of):
                        yield replace(found, operand=each[0])
                        break


def around(stack: Sequence[tuple[Level, int]], by: str = "no_grad") -> list[CutOff]:
    """Return the blocks and decorators that surely disable gradients around lines of functions that run, the innermost
    first; `by`: "inference" for those that make inference tensors."""
    here = [(level, line, level.body) for level, line in stack if level.body is not None]
    found: list[CutOff] = []
    for off in in_force([(body, line) for _, line, body in here], by):
        level = here[off.depth][0]
        section = section_of(level)
        if section is None or not is_sure(level, off):
            break
        apart = off.depth and level.line > off.place.line  # what stands on the line of the block is seen there
        cut = Cut("no_grad", off.place, off.text, "records nothing")
        inside = ((level.place, ""),) if apart else ()
        within = any(each.runs_custom("forward") for each, _, _ in here[off.depth :])
        found.append(CutOff(section, cut, True, inside=inside, enabled=off.enabled, in_function=within))
    return found


def origin(cut: CutOff, every: Sequence[CutOff]) -> CutOff:
    """Return what had made numbers of the values that a cut copies: it is that which has lost them."""
    numbers = (each for each in every if each.cut.kind == "number" and each.before)
    wanted = (each for each in numbers if each.before[-1].kind == "copy" and cut.is_at(each.before[-1].place))
    return next(wanted, cut) if cut.cut.kind == "copy" and (cut.seen or not cut.verdict) else cut


def along(cut: CutOff, every: Sequence[CutOff]) -> list[CutOff]:
    """Return the cuts that a gradient meets before it comes to one, and those behind, if nothing arrives otherwise."""
    known = (each for each in every if each.is_at(cut.cut.place))
    cut = next(known, cut)  # of one that was seen, what was read
    others = [each for each in every if not each.is_at(cut.cut.place)]
    told = [each for each in others if each.cut in cut.before]
    if cut.arrives:
        return told
    return told + [each for each in others if each.before and each.before[-1] == cut.cut]


def _weighed(section: Section, cut: Cut, trained: Trained) -> CutOff:
    if cut.kind == "no_grad":
        return _unrecorded(section, cut, trained)
    cut = _first_within(section, cut)
    names = operands(section, cut)
    taken = _taken(section, node_of(section, cut))
    held = {n: trained.carries(taken[n]) is True if n in taken else _carries(section, n, trained) for n in names}
    operand = next((name for name, carries in held.items() if carries), "")
    known = [carries for carries in held.values() if carries is not None]
    node = None if names else node_of(section, cut)
    drawn = node is not None and all(library(each) for each in ast.walk(node) if isinstance(each, ast.Name))
    verdict = True if operand else False if known or drawn else None
    return CutOff(section, cut, verdict, operand)


def _taken(section: Section, node: ast.expr | None) -> dict[str, list[object]]:
    """What an expression takes from each entry of a list: `[t[0] for t in memory]`, `[s for s, _ in memory]`."""
    found: dict[str, list[object]] = {}
    for each in ast.walk(node) if node is not None else ():
        if not isinstance(each, ast.ListComp | ast.GeneratorExp) or len(each.generators) != 1:
            continue
        target, name = each.generators[0].target, dotted(each.generators[0].iter) or ""
        entries = section.value(name)
        at: int | None = None
        match each.elt:
            case ast.Subscript(value=ast.Name(id=entry), slice=ast.Constant(value=int(k))) if dotted(target) == entry:
                at = k
            case ast.Name() if isinstance(target, ast.Tuple):
                at = next((i for i, one in enumerate(target.elts) if dotted(one) == dotted(each.elt)), None)
        if at is not None and type(entries) is list and all(type(one) in (list, tuple) for one in entries):
            found.setdefault(name, []).extend(one[at] for one in entries if -len(one) <= at < len(one))
    return found


def _carries(section: Section, name: str, trained: Trained) -> bool | None:
    """Whether a gradient goes into a name: into no number, unless `.item()` may have made it of a tensor given."""
    value = section.value(name)
    carries = trained.carries(value)
    if carries is None and isinstance(value, _PLAIN) and section.level is not None:
        given = name in section.level.frame.f_code.co_varnames[: section.level.frame.f_code.co_argcount]
        return None if given else False
    return carries


def _first_within(section: Section, cut: Cut) -> Cut:
    """Of `torch.tensor(x.item())`, which only takes over what is lost, the part that loses it: `x.item()`."""
    node = node_of(section, cut) if cut.kind in ("copy", "integer") else None
    for inner in ast.walk(node) if node is not None else ():
        rule = rule_of(inner) if isinstance(inner, ast.expr) and inner is not node else None
        if rule is not None and rule.always and isinstance(inner, ast.expr):
            return Cut(rule.kind, cut.place, section.body.text(inner), rule.why)
    return cut


def node_of(section: Section, cut: Cut) -> ast.expr | None:
    """The expression of a cut in the syntax tree."""
    statement = statement_at(section.body, *cut.place.position)
    found = (node for node in expressions(statement) if section.body.text(node) == cut.expression) if statement else ()
    return next(iter(found), None)


def why(cut: Cut) -> str:
    """Why it cuts, with the function written as the program does: `.item() returns a Python number, ...`."""
    function, _, rest = cut.why.partition(" ")
    if f"torch.{function}(" in cut.expression:
        return f"torch.{function}() {rest}"
    return f".{function}() {rest}" if f".{function}(" in cut.expression else cut.why


def operands(section: Section, cut: Cut) -> list[str]:
    """The names that the cutting expression reads, without those that only lead to others: `self` of `self.head`."""
    node = node_of(section, cut)
    return _read(section, node) if node is not None else []


def _read(section: Section, node: ast.AST) -> list[str]:
    names = list(names_read(node))
    longest = [name for name in names if not any(other.startswith(f"{name}.") for other in names)]
    found = dict.fromkeys(_known_part(section, name) for name in longest)
    held = {name: section.value(name) for name in found}
    data = {name: value for name, value in held.items() if not isinstance(value, _NOT_DATA)}
    return [name for name, value in data.items() if value is not None or name not in vars(builtins)]


def _known_part(section: Section, name: str) -> str:
    """`logits` of `logits.argmax`: as much of a chain of attributes as leads to a value; all of it if nothing does."""
    part = name
    while part:
        if section.value(part) is not None:
            return part
        part = part.rpartition(".")[0]
    return name.rpartition(".")[0] or name


def _unrecorded(section: Section, cut: Cut, trained: Trained) -> CutOff:
    """Weigh a `with torch.no_grad():` or a decorator: does it cover what is to be trained?"""
    inside = tuple(_trained_inside(section, cut, trained))
    verdict = True if inside or _covers_level(section, cut) else None
    lines = {each.lineno for each in unrecorded(section, cut)}
    here = (off for line in sorted(lines) for off in in_force([(section.body, line)], "inference"))
    enabled = next((off.enabled for off in here if off.place.line == cut.place.line and off.enabled), None)
    return CutOff(section, cut, verdict, inside[0][1] if inside else "", inside, enabled=enabled)


def _trained_inside(section: Section, cut: Cut, trained: Trained) -> Iterator[tuple[Place, str]]:
    for statement in unrecorded(section, cut):
        if isinstance(statement, ast.Expr) and {callee(call)[1] for call in calls_in(statement)} <= {"train", "eval"}:
            continue
        if isinstance(statement, ast.AugAssign) and trained.carries(section.value(dotted(statement.target) or "")):
            continue  # an update of what is trained, which belongs there
        if _updates(section, statement):
            continue
        for name in _read(section, statement):
            if trained.carries(section.value(name)):
                yield section.body.place(statement), name
                break


def _updates(section: Section, statement: ast.stmt) -> bool:
    """Whether a statement changes a leaf by its gradient, or that gradient: nothing that a loss reads is lost there."""
    match statement:
        case ast.AugAssign(target=target):
            name = dotted(target) or ""
        case ast.Expr(value=ast.Call() as call) if callee(call)[1].endswith("_"):
            name = dotted(callee(call)[0]) or ""
        case _:
            return False
    name = name.removesuffix(".data")
    leaf = section.value(name.removesuffix(".grad"))
    by_gradient = name.endswith(".grad") or any(use.name == f"{name}.grad" for use in uses(statement))
    return by_gradient and (leaf is None or (is_leaf(leaf) and needs_gradient(leaf)))


def unrecorded(section: Section, cut: Cut) -> list[ast.stmt]:
    """The statements that are not recorded: those of the `with` block, or of the decorated function, but for those in a
    block inside that enables gradients."""
    inside = list(statements(section.body.node))
    blocks_here = (each for each in inside if isinstance(each, ast.With) and each.lineno == cut.place.line)
    statement = next(blocks_here, None)  # what it holds may stand on the same line
    if statement is not None:
        inside = [each for _, block in blocks(statement) for each in block]
        for each in inside:  # grows as we go
            if not isinstance(each, SCOPES):
                inside += [child for _, block in blocks(each) for child in block]
    inside = [each for each in inside if not enabled_within(section.body, each.lineno, cut.place)]
    return sorted(inside, key=lambda each: each.lineno)


def _covers_level(section: Section, cut: Cut) -> bool:
    """Whether a function still runs inside a block."""
    line = section.level.line if section.level is not None else -1
    if enabled_within(section.body, line, cut.place):
        return False
    return any(covers(each, line) for each in unrecorded(section, cut))


def met_in(graph: Graph, tensors: Sequence[torch.Tensor]) -> Iterator[tuple[CutOff, Place]]:
    """Yield what an exact watch has seen to cut what a graph computes with off from tensors, and where it does."""
    watch, wanted = current(), {id(each) for each in tensors}
    numbers = [number for node in graph.nodes if (number := node.sequence) is not None]
    for each in met(watch, numbers).values() if watch is not None and watch.level == "exact" else ():
        for cut, leaves, _ in each.cuts:
            if cut.line is not None and cut.by != "frozen" and any(id(ref()) in wanted for ref in leaves):
                yield as_seen(cut, cut.line), each.line.place


_ONLY_SHAPES = frozenset(
    {"view_as", "reshape_as", "expand_as", "type_as", "to"}
    | {f"{name}_like" for name in ("zeros", "ones", "full", "empty", "rand", "randn", "randint")}
)
"""Operations that take no more of a second tensor than its shape or dtype."""

_POSITIONS = frozenset(
    {"topk", "sort", "max", "min", "kthvalue", "mode", "median", "cummax", "cummin"}
    | {"nonzero", "multinomial", "searchsorted", "bucketize"}
)


def seen(root: torch.Tensor | None) -> tuple[list[CutOff], frozenset[tuple[str, int]]]:
    """Return what cut `root` off, the nearest first, and the file and line of each place where a history ended; nothing
    without a watch.

    Where none did, or only by what somebody has written to that end, it may have left for Python: `x.item()`.
    """
    watch = current()
    if watch is None or root is None:
        return [], frozenset()
    lined = (each for each in watch.severed(root) if each.line)
    every = [each for each in lined if each.op not in _ONLY_SHAPES or each.by == "integer"]
    departures = () if any(each.by != "detach" for each in every) else watch.departures
    lines = (each.line for each in (*every, *departures) if each.line)
    found = [as_seen(each, each.line) for each in every if each.line]
    return _beside(found), frozenset((at.file, at.line) for at in lines)


def unrecorded_in(failure: Failure, level: Level, name: str, tensor: torch.Tensor) -> Iterator[CutOff]:
    """The blocks without gradients in which a tensor was computed, in functions that have returned."""
    yield from (each for each in seen(tensor)[0] if each.cut.kind == "no_grad" and each.inside)
    start = section_of(level, ((name, level.line),))
    read = cuts(failure, trained(failure), starts=[start] if start is not None else ())
    yield from (each for each in read if each.cut.kind == "no_grad")


def as_seen(cut: Severed, line: Line) -> CutOff:
    """Return what a watch has seen cut a gradient off at a line."""
    body = body_around(line.file, line.line)
    expression, operand = line.segment or cut.op, cut.operand
    section = Section(body or Body(line.file, ast.Module([], []), ()), (), {}, {})
    if cut.by in ("no_grad", "inference"):
        offs = list(disabled_by(cut))
        if not offs:
            why = "runs while gradients are disabled, so autograd records nothing"
            return CutOff(section, Cut("no_grad", line.place, expression, why), True, operand, seen=True)
        first, *around = (_block(off, line.place, operand) for off in offs)
        return replace(first, around=tuple(around))
    kind, why = _kind_and_why(cut)
    if kind == "gradient" and has_graph(parsed(expression)):
        why = f"returns the derivative of {operand or 'its output'}, which depends on nothing that requires grad"
    return CutOff(section, Cut(kind, line.place, expression, why), True, operand, seen=True)


def _block(off: Disabled, ran: Place, operand: str) -> CutOff:
    """A block or decorator in which a watch has seen an operation run."""
    section, cut = Section(off.body, (), {}, {}), Cut("no_grad", off.place, off.text, "records nothing")
    inside = ((ran, operand),)
    return CutOff(section, cut, True, operand, inside, seen=True, calling=off.calling, enabled=off.enabled)


def has_graph(node: ast.AST | None) -> bool:
    """Whether a call asks for gradients with a graph: those without one then are constants."""
    return isinstance(node, ast.Call) and is_constant(keyword(node, "create_graph"), True)


def _kind_and_why(cut: Severed) -> tuple[Kind, str]:
    what = cut.operand or "its input"
    match cut.by:
        case "integer":
            is_index = cut.op.startswith("arg") or cut.op in _POSITIONS
            kind: Kind = "index" if is_index else "comparison" if cut.dtype == "bool" else "integer"
            return kind, f"turns {what} into {cut.dtype or 'integers'}; only floating-point tensors have a gradient"
        case "frozen":
            return "frozen", f"computes {cut.op} from tensors that do not require grad"
        case "rewrapped":
            return "copy", f"copies the values of {what} into a new tensor, without a graph"
        case "derivative":
            return ("gradient", f"returns the derivative of {what} without create_graph=True, so it has no graph")
        case "not differentiable":
            return "rounding", f"has no gradient with respect to {what} ({cut.op})"
    return "number" if cut.by in ("item", "numpy") else "detach", f"detaches {what}"


class Asked(NamedTuple):
    """The call that asked for gradients without a graph.

    text: the call, as the program writes it.
    does: what it says of the graph: `leaves keep at its default, False`.
    mended: its statement, asking for a graph; empty where that is too long.
    wanted: what it must pass: `keep=True`.
    """

    place: Place
    text: str
    does: str
    mended: str
    wanted: str


def asked(cut: CutOff) -> Asked | None:
    """Return the call that left out the graph of a gradient, where a parameter of its function decides on it."""
    caller, call, node = cut.section.caller, cut.section.call, cut.node
    name = dotted(keyword(node, "create_graph")) if isinstance(node, ast.Call) else None
    if cut.cut.kind != "gradient" or caller is None or call is None or name is None:
        return None
    function, _ = function_called(caller, call)
    statement, code = statement_at(caller.body, call.lineno, call.col_offset), getattr(function, "__code__", None)
    if statement is None or code is None or name not in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        return None
    given = cut.section.given.get(name)
    defaults = dict(zip(code.co_varnames[: code.co_argcount][::-1], (function.__defaults__ or ())[::-1], strict=False))
    default = {**defaults, **(function.__kwdefaults__ or {})}.get(name)
    if is_constant(given, True) or (given is None and default is not False):
        return None
    text, wanted = caller.body.text(call), f"{name}=True"
    does = f"passes {caller.body.text(given)} as {name}" if given else f"leaves {name} at its default, False"
    changed = rewritten(caller.body, statement, {given: "True"}) if given is not None else ""
    mended = changed or with_flag(caller.body, statement, call, name)
    return Asked(caller.body.place(statement), text, does, mended, wanted)
