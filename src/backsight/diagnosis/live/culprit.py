"""BS111: what holds ever more graphs, the statement that adds to it, and how to keep the value alone."""

from __future__ import annotations

import ast
import math
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from types import ModuleType

import torch

from backsight.diagnosis.amending import added, written
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.live.census import maker
from backsight.diagnosis.live.graphs import Held
from backsight.diagnosis.live.leaks import Leak
from backsight.diagnosis.program import loops_around
from backsight.diagnosis.wording import counted, listed, shown, warning
from backsight.findings.evidence import Certainty, Evidence
from backsight.naming import requires_grad, search
from backsight.naming.roots import is_library, is_ours
from backsight.source import Body, Place, backward_roots, loop_facts, parsed
from backsight.source.bindings import bound, parameters_of
from backsight.source.body import body_around, callee, calls_in, dotted, functions, statements
from backsight.source.keeping import Keeping, entry_sums, keepings
from backsight.source.rewriting import simple
from backsight.story.memory import shape_of
from backsight.tape import no_torch_function, sequence_number
from backsight.text import size

_MOST = 1000
"""Results that are asked for their node, the nearest first: asking makes a wrapper, see the guard's note."""

COMPOUND = (ast.Tuple, ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.GeneratorExp, ast.SetComp)
"""What is no tensor, though it may hold one."""


def keeping_in(held: Held) -> list[Keeping]:
    """Return the statements that may have put these graphs into their list or dict: one if it is known."""
    if not held.newest.names:
        return []
    name = held.newest.names[0]
    own = body_around(name.file, name.line) if name.file and name.line else None
    base = _variable(name.path)
    found = _of_entry(_stored(own, base) or _stored_elsewhere(base, name.file), name.path)
    return _alike(found, held) if len(found) > 1 else found


def carrying(first: int, last: int, file: str | None, line: int | None) -> list[Keeping]:
    """Return the statement by which a variable carries nodes `first` to `last` on: `hidden = rnn(x, hidden)`."""
    paths = [path for path, _, _, number in _results() if first <= number <= last]
    own = body_around(file, line) if file and line else None
    facts = loop_facts(own, line) if line else None
    while facts is not None:
        for path in paths:
            if path in facts.carried:
                return _stored(own, path) or [Keeping(facts.carried[path][1], path)]
        facts = facts.enclosing
    attributes = (_stored_elsewhere(path, file) for path in paths if "." in path)
    return next((summing for found in attributes if (summing := [each for each in found if each.sums])), [])


def _of_entry(found: list[Keeping], path: str) -> list[Keeping]:
    """Return those that may store into this entry: `log["sim"].append(x)` does not fill `log['loss']`."""
    return [each for each in found if _may_fill(each, path)] or found


def _may_fill(keeping: Keeping, path: str) -> bool:
    try:
        within = [each for each in ast.walk(ast.parse(keeping.place.text)) if isinstance(each, ast.Subscript)]
    except (SyntaxError, ValueError):  # shortened
        return True
    for each in within:
        keys = ast.unparse(each).removeprefix(dotted(each.value) or "")
        is_named = isinstance(each.slice, ast.Constant) and (dotted(each.value) or "").endswith(keeping.name)
        if is_named and not path.removeprefix(_variable(path)).startswith(keys):
            return False
    return True


def _alike(found: list[Keeping], held: Held) -> list[Keeping]:
    """Return those statements whose value is a variable that now holds a result of the same operation and shape."""
    results = {(path, op, shape) for path, op, shape, _ in _results()}
    newest = held.newest
    return [each for each in found if any((p, newest.op, newest.shape) in results for p in _parts(each.value))] or found


def _parts(value: str) -> list[str]:
    """`loss`, or the parts of a container that a statement makes: `["step", "loss"]` of `(step, loss)`."""
    node = parsed(value)
    children = list(ast.iter_child_nodes(node)) if isinstance(node, COMPOUND) else [node]
    return [ast.unparse(child) for child in children if isinstance(child, ast.expr)]


def _variable(path: str) -> str:
    """`log.values` of `log.values['loss'][29]`."""
    found = re.match(r"[\w.]*", path)
    return found[0].rstrip(".") if found else ""


def _stored(body: Body | None, name: str) -> list[Keeping]:
    """Return the statements that keep something there which they do not cut off themselves."""
    found = (*keepings(body, name), *entry_sums(body, name)) if name else ()
    return [each for each in found if not re.search(r"\.(item|detach|tolist|numpy)\(", each.value)]


def _stored_elsewhere(base: str, file: str | None) -> list[Keeping]:
    """Return such statements in other functions, where an attribute is one of another variable: `self.values`."""
    name = f".{base.rpartition('.')[2]}" if "." in base else base
    own = functions(file) if file is not None else ()
    found = [each for body in own for each in _stored(body, name)]
    found = found or [each for body in _bodies() for each in _stored(body, name)]
    return list({each.place: each for each in found}.values())


def _bodies() -> Iterator[Body]:
    """Yield every function and module of the program's own files."""
    for module in list(sys.modules.values()):
        file = vars(module).get("__file__") if type(module) is ModuleType else None
        if type(file) is str and file.endswith(".py") and not is_library(file) and not is_ours(file):
            yield from functions(file)


def _results() -> list[tuple[str, str, tuple[int, ...], int]]:
    """Return the results that variables hold: name, operation, shape, and the number of the operation."""
    found: list[tuple[str, str, tuple[int, ...], int]] = []
    with no_torch_function():
        for tensor, name in search((), collect=(torch.Tensor,), where=requires_grad).found:
            if len(found) == _MOST:
                break
            node = maker(tensor) if isinstance(tensor, torch.Tensor) else None
            if node is not None:
                found.append((name.path, type(node).__name__, shape_of(tensor) or (), sequence_number(node)))
    return found


# The finding, and how to keep the value alone.


LEAK = "BS111"

_SHOWN = 3


@dataclass(frozen=True)
class Told:
    """A leak as a finding. `sums` says that it is a sum for a log, `total += loss`, on which no backward runs."""

    leak: Leak
    finding: Finding
    sums: bool

    def begun_anew(self, step: int) -> Finding:
        """Return the finding where the sum has begun anew since a step, as with each epoch."""
        since = f"It has begun anew after step {step:,}, as with an epoch. Until then, all of those graphs stay alive."
        return replace(self.finding, evidence=(*self.finding.evidence, Evidence(since)))


def told(leaks: Iterable[Leak]) -> list[Told]:
    """Return a finding for each statement that leaks, by its largest leak. To be called while the program stands where
    they were seen."""
    alike: defaultdict[tuple[str, str, tuple[Keeping, ...]], list[Leak]] = defaultdict(list)
    for leak in leaks:
        where = _carrying(leak.held) if leak.is_one_graph else keeping_in(leak.held)
        path = leak.held.newest.names[0].path if leak.held.newest.names else ""
        entry = "" if leak.is_one_graph and path.endswith("]") else path or leak.held.newest.op
        alike[entry, _variable(path), tuple(where)].append(leak)
    return [Told(same[0], _told(same, where), _is_for_a_log(where)) for (_, _, where), same in alike.items()]


def _is_for_a_log(where: Sequence[Keeping]) -> bool:
    return len(where) == 1 and where[0].sums and bool(where[0].value) and not _is_root(where[0])


def _told(same: Sequence[Leak], where: Sequence[Keeping]) -> Finding:
    """Return the finding of one statement; `same` are the leaks that it makes, as entries of one dict are."""
    leak = same[0]
    certainty: Certainty | None = None if len(where) == 1 else "read"
    title, growth = _title(leak), _growth(leak)
    if len(same) > 1:
        base = _variable(leak.held.newest.names[0].path)
        title = f"{base} ({len(same)} entries) keeps the graph of every earlier step alive."
        growth = f"{leak.held.name}{growth.removeprefix('It')}"
    beside = _beside(leak) if leak.is_one_graph and len(where) == 1 else None
    advice = fix(where, leak.held.newest.shape, _is_within(leak.held))
    if beside is not None:
        advice = f"{advice.removesuffix('.')}; and {fix([beside[1]], beside[2])}"
    return warning(
        LEAK,
        title,
        (
            growth,
            *(shown(keeping.place, does(keeping), certainty) for keeping in where[:_SHOWN]),
            *([shown(beside[1].place, f"{does(beside[1]).removesuffix('.')}, in {beside[0]}.")] if beside else []),
        ),
        advice,
        where[0].place if len(where) == 1 else None,
        exact=len(where) == 1,
    )


def _beside(leak: Leak) -> tuple[str, Keeping, tuple[int, ...]] | None:
    """Return the list beside an entry of a log that holds results of the same graph, what fills it, and the shape of
    an entry: the graph is told by one holder only, and without that one, this list would still keep it alive.
    """
    held, lists = leak.held, defaultdict[str, list[tuple[int, tuple[int, ...]]]](list)
    for path, _, shape, number in _results():
        if re.search(r"\[\d+\]$", path) and held.first <= number <= held.newest.last:
            lists[path.rpartition("[")[0]].append((number, shape))
    name = held.newest.names[0] if held.newest.names else None
    for path, results in lists.items():
        spread = max(results)[0] - min(results)[0]
        if (
            name is None
            or _variable(path) != _variable(name.path)
            or len(results) < _FEW
            or 2 * spread < held.newest.last - held.first
        ):
            continue
        own = body_around(name.file, name.line) if name.file and name.line else None
        base = _variable(path)
        found = _of_entry(_stored(own, base) or _stored_elsewhere(base, name.file), path)
        if len(found) == 1:
            return path, found[0], results[0][1]
    return None


_FEW = 3
"""Results of one graph from which on a list that holds them is no chance."""


def _carrying(held: Held) -> list[Keeping]:
    name = held.newest.names[0] if held.newest.names else None
    if name is None:
        return []
    found = carrying(held.first, held.newest.last, name.file, name.line)
    return found or (_carrying_entry(name.path, name.file, name.line) if name.path.endswith("]") else [])


def _carrying_entry(path: str, file: str | None, line: int | None) -> list[Keeping]:
    """Return the statement that computes an entry from itself: `ema[n] = 0.9 * ema[n] + 0.1 * p`."""
    base = _variable(path)
    own = body_around(file, line) if file and line else None
    found = _of_entry(_stored(own, base) or _stored_elsewhere(base, file), path)
    return [each for each in found if each.sums or _reads_itself(each)]


def _reads_itself(keeping: Keeping) -> bool:
    """Whether what a statement puts into a dict is computed from entries of it."""
    node = parsed(keeping.value)
    return node is not None and any(
        isinstance(each, ast.Subscript) and (dotted(each.value) or "").endswith(keeping.name) for each in ast.walk(node)
    )


def _title(leak: Leak) -> str:
    if not leak.held.name:
        return "Graphs pile up, but backsight found no variable that holds them."
    if leak.is_one_graph:
        return f"{leak.held.name} keeps the graph of every earlier step alive."
    return f"{_list(leak.held)} holds the graphs of more and more steps."


def _list(held: Held) -> str:
    """`log.values['loss'] (local of train)`: what the names of the newest and the oldest graph have in common."""
    newest, path = held.newest.names[0], _path_of_list(held)
    return newest.text.replace(newest.path, path, 1) if path else newest.text


def _path_of_list(held: Held) -> str:
    newest, oldest = held.newest.names[0].path, held.graphs[-1].names[0].path
    same = takewhile(lambda pair: pair[0] == pair[1], zip(newest, oldest, strict=False))
    return "".join(one for one, _ in same).rpartition("[")[0]


def _is_within(held: Held) -> bool:
    """Whether what is put into the list is no tensor but has it inside: `buffer[9][4]`, `history[9].loss`."""
    if not held.name or not (path := _path_of_list(held)):
        return False
    return not re.fullmatch(r"\[[^\[\]]*\]", held.newest.names[0].path[len(path) :])


def _growth(leak: Leak) -> str:
    more = [_amount(leak.rate(leak.graphs), "graph"), _amount(leak.rate(leak.nodes), "operation")]
    if leak.bytes >= 1:
        more.append(size(int(leak.bytes)))
    of, noun = (leak.nodes, "operation") if leak.is_one_graph else (leak.graphs, "graph")
    (first, *later), (after, *others) = of, leak.steps
    held = [f"{counted(first, noun)} after {counted(after, 'step')}"]
    held += [f"{count:,} after {step:,}" for count, step in zip(later, others, strict=True)]
    newest = f" The newest is {leak.held.name}." if leak.held.name else f" The newest ends in {leak.held.newest.op}."
    where = "" if leak.is_one_graph and leak.held.name else newest
    return f"It held {listed(held)}: {listed([each for each in more if each])} more with each step.{where}"


def _amount(rate: float, noun: str) -> str:
    """`17 operations`; `0.25 graphs` for what comes every fourth step; empty for nothing."""
    if not rate:
        return ""
    text = f"{rate:.2g}"
    return counted(int(rate), noun) if rate == int(rate) else f"{text} {noun}{'s' * (text != '1')}"


def does(keeping: Keeping) -> str:
    """Say what a statement does that keeps a graph."""
    if not keeping.value:
        return "computes it from its value in the previous step and keeps both graphs."
    return f"{'adds' if keeping.sums else 'keeps'} {keeping.value}, still attached to its graph."


def fix(where: Sequence[Keeping], shape: Sequence[int], within: bool = False) -> str:
    """Return how to let the graphs go; `shape` is that of the newest result, which may be `within` what is kept."""
    if len(where) != 1:
        return "Store values there instead of tensors with a graph: .item() for a number, .detach() for a tensor."
    (keeping,) = where
    mixed = "" if _is_root(keeping) or keeping.value else _mixed(keeping)
    if mixed:
        return f"{mixed}{written(keeping.place, mixed)}, which adds the value and drops its graph."
    if not keeping.value or _is_root(keeping):
        name = keeping.place.text.partition("=")[0].rstrip(" +")
        carried = name if re.fullmatch(r"[\w.]+", name) else keeping.name
        detaching = f"{carried} = {carried}.detach()"
        return f"Detach it at the start of each step: {detaching}{_in_each_step(keeping.place, detaching)}."
    scalar = math.prod(shape) == 1
    if within:
        what = ".item()" if scalar else ".detach()"
        return f"Store the value without its graph: use {what} where {keeping.value} is created."
    if _is_one_of_many(keeping):
        what = "the number, with .item()" if scalar else "the values, with .detach()"
        where_called = f"where the function with line {keeping.place.line} is called"
        return f"Pass {what}, {where_called}: {keeping.value} may hold other things too."
    scalar = scalar and not _reads_itself(keeping)  # an average of weights stays a tensor
    scalar = scalar and not _is_used(keeping)
    made = _cut(keeping.value, "item" if scalar else "detach")
    statement = keeping.with_value(made) if made else ""
    if not statement:
        return "Keep its value without its graph: .item() for a number, .detach() for a tensor."
    keeps = f"keeps {'the number' if scalar else 'the values'} and drops the graph"
    return f"{statement}{written(keeping.place, statement)}, which {keeps}."


def _in_each_step(place: Place, code: str) -> str:
    """Put a statement first in the loop around a place."""
    body = body_around(place.file, place.line)
    inside = loops_around(body, place.line)
    return added(code, "below", body.place(inside[-1])) if body is not None and inside else ""


_OF_TENSORS = frozenset({"item", "mean", "std", "detach", "cpu", "numpy", "tolist", "backward"})
_TAKE_TENSORS = frozenset({"stack", "cat", "hstack", "vstack"})
_MAKE_TENSORS = frozenset({"tensor", "as_tensor", "Tensor", "FloatTensor", "array", "asarray", "len", "float"})
"""Calls that take numbers as well."""


def _is_used(keeping: Keeping) -> bool:
    """Whether methods of tensors are called on what is kept there, which a number has not: `sum(losses[-10:]).item()`.

    An attribute may be read by any function of the file.
    """
    own, name = body_around(keeping.place.file, keeping.place.line), keeping.name
    for body in functions(keeping.place.file) if "." in name else [own]:
        for call in (each for statement in statements(body) for each in calls_in(statement)):
            receiver, method = callee(call)
            given = [receiver] if method in _OF_TENSORS else call.args if method in _TAKE_TENSORS else []
            inside = [node for each in given if each is not None for node in ast.walk(each)]
            makes = any(isinstance(node, ast.Call) and callee(node)[1] in _MAKE_TENSORS for node in inside)
            names = [dotted(node) or "" for node in inside] if not makes else []
            if name in names or (name.startswith(".") and any(each.endswith(name) for each in names)):
                return True
    return False


def _mixed(keeping: Keeping) -> str:
    """The statement of a running average, with what it adds detached; empty for any other.

    >>> _mixed(keeping)      # self.value = self.beta * self.value + (1 - self.beta) * x
    'self.value = self.beta * self.value + (1 - self.beta) * x.detach()'

    The average itself may start as a number, which cannot be detached.
    """
    try:
        (statement,) = ast.parse(keeping.place.text).body
    except (SyntaxError, ValueError):  # shortened
        return ""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.BinOp):
        return ""
    plain = (ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Name, ast.Attribute, ast.Constant, ast.expr_context)
    if not all(isinstance(each, plain) for each in ast.walk(statement.value)):
        return ""
    inner = {id(each.value) for each in ast.walk(statement.value) if isinstance(each, ast.Attribute)}
    names = [n for n in ast.walk(statement.value) if isinstance(n, ast.Name) and id(n) not in inner]
    added = [n for n in names if n.id != dotted(statement.targets[0])]
    given = _given_in(keeping)
    added = [n for n in added if n.id in given] if len(added) > 1 else added
    if len(added) != 1:
        return ""
    text, end = keeping.place.text.encode(), added[0].end_col_offset or 0
    return f"{text[:end].decode()}.detach(){text[end:].decode()}"


def _given_in(keeping: Keeping) -> set[str]:
    """The names that the function around a statement is given or computes."""
    body = body_around(keeping.place.file, keeping.place.line)
    return set(parameters_of(body.node)) if body is not None else set()


def _is_root(keeping: Keeping) -> bool:
    """Whether a backward is run on the sum itself, so that it may not become a number."""
    body = body_around(keeping.place.file, keeping.place.line)
    roots = [root for root, _ in backward_roots(body)]
    return keeping.sums and keeping.name in roots


def _is_one_of_many(keeping: Keeping) -> bool:
    """Whether what is kept is an item of what the function was given, `for name, value in values.items():`."""
    body = body_around(keeping.place.file, keeping.place.line)
    given = getattr(body.node, "args", None) if body is not None else None
    if body is None or not isinstance(given, ast.arguments):
        return False
    names = {
        each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg) if each
    }
    return any(
        isinstance(each, ast.For)
        and keeping.value in bound(each)
        and any(isinstance(node, ast.Name) and node.id in names for node in ast.walk(each.iter))
        for each in statements(body.node)
    )


def _cut(value: str, method: str) -> str:
    """`loss.item()`, `(loss / n).item()`; empty for what is no tensor: `(loss, accuracy)`."""
    node = parsed(value)
    return "" if node is None or isinstance(node, COMPOUND) else f"{simple(value)}.{method}()"
