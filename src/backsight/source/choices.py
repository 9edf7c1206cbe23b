"""Where a function compares one name with several texts, and does nothing where none of them fits."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from backsight.source.bindings import spots
from backsight.source.body import Body, Place, body_around, dotted, statements
from backsight.source.edits import Edit, change


@dataclass(frozen=True, eq=False)
class Choice:
    """`if how == "mean": ...`, `elif how == "sum": ...`, and no else.

    name: what is compared. options: with which texts.
    place: the first of the comparisons. blocks: what follows each of them.
    """

    name: str
    options: tuple[str, ...]
    place: Place
    blocks: tuple[tuple[ast.stmt, ...], ...]

    @property
    def inside(self) -> Iterator[ast.stmt]:
        """The statements of all branches."""
        return (each for block in self.blocks for each in statements(ast.Module([*block], [])))


def choices(body: Body) -> tuple[Choice, ...]:
    """Return the choices of a function; comparisons of one name that stand side by side are one choice.

    >>> [(each.name, each.options) for each in choices(body)]
    [('how', ('mean', 'sum'))]
    """
    found: dict[tuple[str, tuple[object, ...]], list[tuple[Place, dict[str, list[ast.stmt]]]]] = {}
    spoiled = set()
    for spot in spots(body.node):
        is_elif = bool(spot.arms) and spot.arms[-1][1] == "orelse" and isinstance(spot.arms[-1][0], ast.If)
        if isinstance(spot.node, ast.If) and not is_elif and (compared := _options(spot.node.test)):
            name, chain, left = compared[0], dict[str, list[ast.stmt]](), [spot.node]
            for each in left:  # grows as we go
                other = _options(each.test)
                if other is None or other[0] != name:
                    spoiled.add((name, spot.arms))
                    break
                chain |= dict.fromkeys(other[1], each.body)
                if len(each.orelse) == 1 and isinstance(each.orelse[0], ast.If):
                    left.append(each.orelse[0])
                elif each.orelse:
                    spoiled.add((name, spot.arms))
            found.setdefault((name, spot.arms), []).append((body.place(spot.node), chain))
    whole = {key: (each[0][0], {o: b for _, chain in each for o, b in chain.items()}) for key, each in found.items()}
    return tuple(
        Choice(key[0], tuple(options), place, tuple(map(tuple, options.values())))
        for key, (place, options) in whole.items()
        if len(options) > 1 and key not in spoiled
    )


def _options(test: ast.expr) -> tuple[str, tuple[str, ...]] | None:
    """The name and the texts of `how == "mean"`, `how in ("sum", "total")`."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1 or not isinstance(test.ops[0], ast.Eq | ast.In):
        return None
    sides = (test.left, test.comparators[0])
    name = next((written for side in sides if (written := dotted(side))), None)
    given = [part for side in sides for part in (getattr(side, "elts", None) or [side]) if dotted(part) != name]
    texts = tuple(each.value for each in given if isinstance(each, ast.Constant) and isinstance(each.value, str))
    return (name, texts) if name and texts and len(texts) == len(given) else None


def literals(file: str, text: str) -> Iterator[Place]:
    """The statements of a file that write a text out, comparisons left out."""
    module = body_around(file, 0)
    stack: list[tuple[ast.AST, ast.stmt | None]] = [(module.node, None)] if module else []
    while stack:
        node, statement = stack.pop()
        statement = node if isinstance(node, ast.stmt) else statement
        if isinstance(node, ast.Constant) and node.value == text and module and statement:
            yield module.place(node, module.text(statement))
        if not isinstance(node, ast.Compare):
            stack += [(each, statement) for each in ast.iter_child_nodes(node)]


def another_text(at: Place, text: str, new: str) -> Edit | str:
    """Return the edit to a place of `literals`, for another text; nothing where its file cannot be read."""
    body = body_around(at.file, at.line)
    if body is None:
        return ""
    quote = body.lines[at.line - 1].encode()[at.column : at.column + 1].decode("utf-8", "replace")
    return change(at, f"{quote}{text}{quote}", f"{quote}{new}{quote}")
