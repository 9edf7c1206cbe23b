"""BS111: what holds ever more graphs, the statement that adds to it, and how to keep the value alone."""

from __future__ import annotations

import ast
import math
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import takewhile
from types import ModuleType

import torch

from backsight.diagnosis.evidence.memory import shape_of
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.live.census import maker
from backsight.diagnosis.live.graphs import Held
from backsight.diagnosis.live.leaks import Leak
from backsight.diagnosis.wording import counted, listed, shown
from backsight.naming import Name, search
from backsight.naming.roots import is_library, is_ours
from backsight.source import Body, loop_facts
from backsight.source.body import body_around, functions
from backsight.source.keeping import Keeping, keepings
from backsight.tape import no_torch_function
from backsight.tape._torch import sequence_number
from backsight.tape.caption import size

LEAK = "BS111"

_SHOWN = 3

_COMPOUND = (ast.Tuple, ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.GeneratorExp, ast.SetComp)


def told(leak: Leak) -> Finding:
    """Return a leak as a finding. To be called while the program stands where it was seen."""
    where = _kept_at(leak)
    says = _says if len(where) == 1 else _may
    return Finding(
        LEAK,
        "warning",
        _title(leak),
        (_growth(leak), *(shown(keeping.place, says(keeping)) for keeping in where[:_SHOWN])),
        _cure(leak, where),
        source=str(where[0].place) if len(where) == 1 else None,
        exact=len(where) == 1,
    )


def _title(leak: Leak) -> str:
    if not leak.held.name:
        return "Graphs pile up, and no variable was found that holds them."
    if leak.is_one_graph:
        return f"{leak.held.name} hangs on every step before: its graph grows."
    return f"{_list(leak.held)} holds the graphs of more and more steps."


def _list(held: Held) -> str:
    """`log.values['loss'] (local of train)`: what the names of the newest and the oldest graph have in common."""
    newest, oldest = held.newest.names[0], held.graphs[-1].names[0]
    same = takewhile(lambda pair: pair[0] == pair[1], zip(newest.path, oldest.path, strict=False))
    path = "".join(one for one, _ in same).rpartition("[")[0]
    return newest.text.replace(newest.path, path, 1) if path else newest.text


def _growth(leak: Leak) -> str:
    by = [_amount(leak.rate(leak.graphs), "graph"), _amount(leak.rate(leak.nodes), "operation")]
    if leak.bytes >= 1:
        by.append(size(int(leak.bytes)))
    of, noun = (leak.nodes, "operations") if leak.is_one_graph else (leak.graphs, "graphs")
    series = f"{listed([f'{n:,}' for n in of])} {noun} after steps {listed([f'{n:,}' for n in leak.steps])}"
    held = f", held by {leak.held.name}" if leak.held.name else f", ending in {leak.held.newest.op}"
    return f"It grows by {listed([each for each in by if each])} a step: {series}{held}."


def _amount(rate: float, noun: str) -> str:
    """`17 operations`; `0.25 graphs` for what comes every fourth step; empty for nothing."""
    if not rate:
        return ""
    return counted(int(rate), noun) if rate == int(rate) else f"{rate:.2g} {noun}s"


def _says(keeping: Keeping) -> str:
    if not keeping.value:
        return "computes it from its value of the step before, and keeps the graph of both."
    return f"{'adds' if keeping.sums else 'keeps'} {keeping.value} with the graph behind it."


def _may(keeping: Keeping) -> str:
    return f"may be what keeps it: {keeping.value}." if keeping.value else "may be what keeps it."


def _cure(leak: Leak, where: Sequence[Keeping]) -> str:
    if len(where) != 1:
        return "Keep values there instead of tensors that have a graph: .item() of a number, .detach() of a tensor."
    (keeping,) = where
    if not keeping.value:
        name = keeping.place.text.partition("=")[0].strip()
        carried = name if re.fullmatch(r"[\w.]+", name) else keeping.name
        return f"Cut it at the beginning of each step: {carried} = {carried}.detach()."
    scalar = math.prod(leak.held.newest.shape) == 1
    made = _cut(keeping.value, "item" if scalar else "detach")
    statement = keeping.with_value(made) if made else ""
    if not statement:
        return "Keep its value without its graph: .item() of a number, .detach() of a tensor."
    return f"{statement}, which keeps {'the number' if scalar else 'the values'} and lets the graph go."


def _cut(value: str, method: str) -> str:
    """`loss.item()`, `(loss / n).item()`; empty for what is no tensor: `(loss, accuracy)`."""
    try:
        node = ast.parse(value, mode="eval").body
    except SyntaxError:  # shortened, as it was too long to show
        return ""
    if isinstance(node, _COMPOUND):
        return ""
    simple = isinstance(node, ast.Name | ast.Attribute | ast.Subscript | ast.Call)
    return f"{value}.{method}()" if simple else f"({value}).{method}()"


def _kept_at(leak: Leak) -> list[Keeping]:
    """Return the statements that may have put the graphs where they are: one if it is known."""
    if not leak.held.newest.names:
        return []
    name = leak.held.newest.names[0]
    own = body_around(name.file, name.line) if name.file and name.line else None
    if leak.is_one_graph:
        return _carried(leak.held, own, name)
    base = _variable(name.path)
    found = _stored(own, base) or _stored_elsewhere(base, name.file)
    return _alike(found, leak.held) if len(found) > 1 else found


def _alike(found: list[Keeping], held: Held) -> list[Keeping]:
    """Return those statements whose value is a variable that now holds a result of the same operation and shape."""
    results = {(path, op, shape) for path, op, shape, _ in _results()}
    newest = held.newest
    return [each for each in found if any((p, newest.op, newest.shape) in results for p in _parts(each.value))] or found


def _parts(value: str) -> list[str]:
    """`loss`, or the parts of a container that a statement makes: `["step", "loss"]` of `(step, loss)`."""
    try:
        node = ast.parse(value, mode="eval").body
    except SyntaxError:  # shortened, as it was too long to show
        return []
    children = list(ast.iter_child_nodes(node)) if isinstance(node, _COMPOUND) else [node]
    return [ast.unparse(child) for child in children if isinstance(child, ast.expr)]


def _variable(path: str) -> str:
    """`log.values` of `log.values['loss'][29]`."""
    found = re.match(r"[\w.]*", path)
    return found[0].rstrip(".") if found else ""


def _stored(body: Body | None, name: str) -> list[Keeping]:
    """Return the statements that keep something there which they do not cut off themselves."""
    found = keepings(body, name) if body and name else ()
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


def _carried(held: Held, own: Body | None, name: Name) -> list[Keeping]:
    """Return the statement by which a variable carries this graph from step to step: `hidden = rnn(x, hidden)`."""
    paths = _results_in(held)
    facts = loop_facts(own, name.line) if own and name.line else None
    while facts is not None:
        for path in paths:
            if path in facts.carried:
                return _stored(own, path) or [Keeping(facts.carried[path][1], path)]
        facts = facts.enclosing
    attributes = (_stored_elsewhere(path, name.file) for path in paths if "." in path)
    return next((summing for found in attributes if (summing := [each for each in found if each.sums])), [])


def _results_in(held: Held) -> list[str]:
    """Return what the program calls the results of this graph that it holds."""
    inside = range(held.first, held.newest.last + 1)
    return [path for path, _, _, number in _results() if number in inside]


def _results() -> list[tuple[str, str, tuple[int, ...], int]]:
    """Return the results that variables hold: name, operation, shape, and the number of the operation."""
    found = []
    with no_torch_function():
        for tensor, name in search((), collect=(torch.Tensor,)).found:
            node = maker(tensor) if isinstance(tensor, torch.Tensor) else None
            if node is not None:
                found.append((name.path, type(node).__name__, shape_of(tensor) or (), sequence_number(node)))
    return found
