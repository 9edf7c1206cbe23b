"""The rows of a step under the modules that they belong to, and which modules need not be shown as they are alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from backsight.tables.step import Row

ROWS = 48
"""A table of more rows than this is folded."""

_ORDER = (
    *("input", "eval_input", "output", "eval_output", "output_grad"),
    *("variable", "weight", "buffer", "grad", "averaged_grad"),
)
_OF_CALLS = _ORDER[:5]


@dataclass
class Module:
    """A module, its rows in the order in which they are shown, and the modules in it.

    `alike` is how many modules this stands for, up to that with the label `last`; it then has no rows but one with a
    problem, if there is one.
    """

    name: str | None
    label: str
    type: str
    depth: int
    rows: list[Row] = field(default_factory=list)
    children: list[Module] = field(default_factory=list)
    alike: int = 1
    last: str = ""


def modules(tree: Any, rows: Sequence[Row]) -> list[Module]:
    """Return the outermost modules; those without rows, in themselves and inside, are left out.

    tree: as a run holds it; modules that are not in it come last.
    """
    waiting: dict[str | None, list[Row]] = {}
    for row in rows:
        waiting.setdefault(row.module, []).append(row)
    order = {(row.tensor, row.kind): k for k, row in enumerate(rows)}
    roots: list[Module] = []
    stack = [(node, 0, roots) for node in reversed(tree or [])]
    while stack:
        node, depth, siblings = stack.pop()
        name = node["name"]
        module = Module(name, _label(name, node, depth), node["type"], depth)
        if "same_as" not in node:
            module.rows = _sorted(waiting.pop(name, []), order)
        siblings.append(module)
        stack += [(child, depth + 1, module.children) for child in reversed(node.get("children", []))]
    for name, left in waiting.items():
        label = "variables" if name is None else name or "model"
        roots.append(Module(name, label, "", 0, _sorted(left, order)))
    return _with_rows(roots)


def in_order(roots: Sequence[Module]) -> Iterator[Module]:
    """Yield every module, each before those in it."""
    stack = list(reversed(roots))
    while stack:
        module = stack.pop()
        yield module
        stack += reversed(module.children)


def folded(roots: list[Module]) -> list[Module]:
    """Return the modules where of those that are alike only the first and the last are shown.

    Alike are neighbours of one type with the same modules, tensors and kinds of problems in them.
    """
    whole = list(in_order(roots))
    forms: dict[int, int] = {}
    for module in reversed(whole):
        tensors = tuple(
            (short(row.tensor, row.module), row.kind, *(problem.kind for problem in row.problems))
            for row in module.rows
        )
        forms[id(module)] = hash((module.type, tensors, tuple(forms[id(child)] for child in module.children)))
    for module in whole:
        module.children = _folded(module.children, forms)
    return _folded(roots, forms)


def short(tensor: str, module: str | None) -> str:
    """Return the name of a tensor within its module."""
    return tensor.removeprefix(f"{module}.") if module else tensor


def base(row: Row) -> str:
    """Return the parameter that a row is about, within its module; the state of an optimizer is about one too."""
    name = short(row.tensor, row.module)
    return name.rpartition(".")[0] if row.kind == "state" and "." in name else name


def _sorted(rows: list[Row], order: dict[tuple[str, str], int]) -> list[Row]:
    """Put what goes through a module first, then each parameter with all that is about it."""
    first: dict[str, int] = {}
    for row in rows:
        key = base(row)
        first[key] = min(first.get(key, len(order)), order[row.tensor, row.kind])

    def place(row: Row) -> tuple[int, int, int, int]:
        kind = _ORDER.index(row.kind) if row.kind in _ORDER else len(_ORDER)
        position = order[row.tensor, row.kind]
        return (0, kind, position, 0) if row.kind in _OF_CALLS else (1, first[base(row)], kind, position)

    return sorted(rows, key=place)


def _label(name: str, node: dict[str, Any], depth: int) -> str:
    if "same_as" in node:
        return f"{name.rpartition('.')[2]} = {node['same_as']}"
    return (name if depth == 0 else name.rpartition(".")[2]) or "model"


def _with_rows(roots: list[Module]) -> list[Module]:
    kept: dict[int, bool] = {}
    for module in reversed(list(in_order(roots))):
        module.children = [child for child in module.children if kept[id(child)]]
        kept[id(module)] = bool(module.rows or module.children)
    return [module for module in roots if kept[id(module)]]


def _folded(siblings: list[Module], forms: dict[int, int]) -> list[Module]:
    out: list[Module] = []
    alike: list[Module] = []
    for k, module in enumerate(siblings):
        form = forms[id(module)]
        around = {forms[id(other)] for other in siblings[max(0, k - 1) : k + 2]}
        inside = 0 < k < len(siblings) - 1 and around == {form}
        if inside:
            alike.append(module)
            continue
        out += [*_one(alike), module]
        alike = []
    return out


def _one(alike: list[Module]) -> list[Module]:
    """Return one line in place of several modules."""
    if len(alike) < 2:
        return alike
    first, last = alike[0], alike[-1]
    wrong = next((row for module in in_order([first]) for row in module.rows if row.problems), None)
    rows = [] if wrong is None else [wrong]
    return [Module(first.name, first.label, first.type, first.depth, rows, alike=len(alike), last=last.label)]
