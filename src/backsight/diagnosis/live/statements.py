"""The statements that keep graphs alive: what puts them into a list, what carries them from step to step."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from types import ModuleType

import torch

from backsight.diagnosis.live.census import maker
from backsight.diagnosis.live.graphs import Held
from backsight.naming import requires_grad, search
from backsight.naming.roots import is_library, is_ours
from backsight.source import Body, loop_facts, parsed
from backsight.source.body import body_around, functions
from backsight.source.keeping import Keeping, keepings
from backsight.story.memory import shape_of
from backsight.tape import no_torch_function, sequence_number

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
    found = _stored(own, base) or _stored_elsewhere(base, name.file)
    return _alike(found, held) if len(found) > 1 else found


def carrying(first: int, last: int, file: str | None, line: int | None) -> list[Keeping]:
    """Return the statement by which a variable carries a graph from step to step: `hidden = rnn(x, hidden)`.

    The graph is that of the nodes numbered from `first` to `last`; the loop is looked for around `line` of `file`.
    """
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
    found = keepings(body, name) if name else ()
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
