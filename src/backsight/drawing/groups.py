"""The operations of a graph as a tree: each stands in the call of the module that made it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from backsight.tape import Graph
from backsight.tape.rows import Rows

GroupKind = Literal["module", "repeat", "part"]


@dataclass(eq=False)
class Group:
    """Operations that follow each other and belong together: rows `start` to `stop`.

    A module's call, the body of a repetition that no module frames, or a part of what is too long to be shown at once.
    `items` are rows and inner groups in forward order. Of a repetition only the first copy is held: `times` says how
    often it comes and `last` is the path of the last module in the last copy. `path` is that of the innermost module.
    """

    kind: GroupKind
    path: str
    start: int
    parent: Group | None = None
    items: list[Item] = field(default_factory=list)
    stop: int = 0
    times: int = 1
    last: str = ""


Item = int | Group
"""A row, by its number, or a group of rows."""


def first_row(item: Item) -> int:
    """Return the row at which `item` begins."""
    return item if isinstance(item, int) else item.start


def end_row(item: Item) -> int:
    """Return the row after the last one of `item`, with all its repetitions."""
    return item + 1 if isinstance(item, int) else item.start + (item.stop - item.start) * item.times


def inner_groups(top: Group) -> Iterator[Group]:
    """Yield `top` and all groups in it, each before those within it."""
    waiting = [top]
    while waiting:
        group = waiting.pop()
        yield group
        waiting += [item for item in reversed(group.items) if isinstance(item, Group)]


def grouped(graph: Graph, rows: Rows) -> Group:
    """Return the tree of `rows`: one group for every uninterrupted stretch of rows made within one module.

    A group is a stretch of the forward order, so that edges between the items of a group all lead forward, whatever the
    modules are called and however they share operations.
    """
    top = Group("module", "", 0)
    open_groups: list[Group] = [top]
    keys: list[_Key] = []  # of all open groups but the top one
    for row, path in enumerate(rows.module):
        wanted = _keys(path, graph.around[rows.node[row]] if graph.around else ())
        if wanted != keys:
            shared = _shared(keys, wanted)
            _close(open_groups, shared + 1, row)
            for k in range(shared, len(wanted)):
                inner = Group("module", wanted[k][0], row, open_groups[-1])
                open_groups[-1].items.append(inner)
                open_groups.append(inner)
            keys = wanted
        open_groups[-1].items.append(row)
    _close(open_groups, 1, len(rows))
    top.stop = len(rows)
    return top


_Key = tuple[str, int]
"""The path of a module and which call of it, or -1 where that is not known."""


def _keys(path: str, around: tuple[tuple[str, int], ...]) -> list[_Key]:
    """Return the modules within which a row stands, outermost first."""
    if not path:
        return []
    parts, calls = path.split("."), dict(around)
    paths = [".".join(parts[: k + 1]) for k in range(len(parts))]
    return [(path, calls.get(path, -1)) for path in paths]


def _shared(a: Sequence[_Key], b: Sequence[_Key]) -> int:
    return next((k for k, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _close(open_groups: list[Group], keep: int, row: int) -> None:
    for group in open_groups[keep:]:
        group.stop = row
    del open_groups[keep:]


def worn(top: Group) -> dict[int, str]:
    """Let a row that is all its module did wear the module's path; the module's group goes.

    ```python
    worn(top)       # {0: "conv1", 1: "bn1"}: one box that says `conv1 Convolution`, not a frame around a box
    ```
    """
    wears: dict[int, str] = {}
    for group in reversed(list(inner_groups(top))):
        for k, item in enumerate(group.items):
            if isinstance(item, Group) and len(item.items) == 1:
                only = item.items[0]
                if isinstance(only, int):
                    wears.setdefault(only, item.path)
                    group.items[k] = only
    return wears


def without_frames(top: Group) -> None:
    """Take out each group that holds nothing but one other group: `layer1` around `layer1.0…1 ×2`."""
    for group in reversed(list(inner_groups(top))):
        if group is top or group.times > 1 or group.kind != "module" or len(group.items) != 1 or group.parent is None:
            continue
        only = group.items[0]
        if isinstance(only, Group):
            only.parent = group.parent
            group.parent.items[group.parent.items.index(group)] = only
