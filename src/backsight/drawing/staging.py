"""From a graph to the folded picture: `staged(graph, look)`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from backsight.drawing.callings import calls
from backsight.drawing.folding import below, fold
from backsight.drawing.given import Given, given
from backsight.drawing.groups import Group, Item, end_row, grouped, without_frames, worn
from backsight.drawing.heat import Warmth, warmth
from backsight.drawing.look import MOST_BOXES, Look
from backsight.drawing.marks import Marks, marked
from backsight.drawing.opening import opened
from backsight.drawing.parts import cut_into_parts
from backsight.drawing.places import leaf_nodes, root_names, row_by_node
from backsight.drawing.scene import Box, BoxKind, Chip, Scene, Status
from backsight.drawing.totals import Totals
from backsight.tape import Graph
from backsight.tape.caption import GUESSED, facts, is_guessed, title
from backsight.tape.cells import harmless
from backsight.tape.ops import op_name
from backsight.tape.rows import Rows, together, visible

MOST_ITEMS = 60
"""How many boxes a group may hold before it is cut into parts, if `max_boxes` is not more."""

_KINDS: dict[str, BoxKind] = {"leaf": "leaf", "custom": "custom", "compiled": "region", "checkpoint": "region"}


def staged(graph: Graph, look: Look) -> Scene:
    """Return the picture of `graph` that `look` asks for.

    ```python
    scene = staged(backsight.graph(loss), Look())
    [scene.boxes[i].name for i in scene.shown]      # ["wte", "wpe", "", "drop", "h.0…11", "ln_f", ...]
    ```

    Raises:
        NotInGraph: if a place that `look` names is not in the graph.
    """
    rows = visible(graph, views=look.views)
    marks = marked(graph, rows, look)
    top = grouped(graph, rows)
    wears = worn(top)
    pills = given(graph, rows, look)
    stands_for = fold(top, rows, wears, _seen(rows, marks, pills)) if look.fold else np.arange(len(rows))
    without_frames(top)
    cut_into_parts(top, rows.inputs, min(max(look.max_boxes, MOST_ITEMS), MOST_BOXES))
    stage = _Stage(graph, rows, marks, wears, warmth(graph, rows, look), stands_for, pills)
    stage.set_up(top)
    scene = Scene(
        title=harmless(look.title) or title(rows),
        summary=" · ".join([*filter(None, [harmless(look.note)]), *_model(graph), *(text for text, _ in facts(graph))]),
        boxes=tuple(stage.boxes),
        links=tuple(stage.links()),
        scale=stage.warmth.scale,
        remarks=marks.remarks,
        notes=_notes(graph, rows),
        at=stage.boxes_by_node(),
    )
    return opened(scene, look, graph.model)


def _seen(rows: Rows, marks: Marks, pills: Given) -> list[tuple[object, ...]]:
    """Return, for each row, what the picture shows of it that `rows` does not hold."""
    return [
        (
            tuple((marks.statuses[k], k in marks.hot_leaves) for k in leaves),
            row in marks.hot,
            row in marks.shared,
            marks.pins.get(row),
            tuple((chip.text, chip.status) for chip in pills.get(row, ())),
        )
        for row, leaves in enumerate(rows.leaves)
    ]


def _model(graph: Graph) -> Iterator[str]:
    """Yield what the model is called and its class, where there is one."""
    name, cls = graph.model, graph.classes.get("", "")
    if cls:
        yield harmless(f"{name}: {cls}" if name else cls)


def _notes(graph: Graph, rows: Rows) -> tuple[str, ...]:
    notes = [f"{rows.hidden:,} view{'s' * (rows.hidden != 1)} hidden"] if rows.hidden else []
    if is_guessed(graph, rows):
        notes.append(GUESSED)
    return tuple(notes)


class _Stage:
    """Makes the boxes: walks the tree of groups in forward order."""

    def __init__(
        self,
        graph: Graph,
        rows: Rows,
        marks: Marks,
        wears: dict[int, str],
        warmth: Warmth,
        stands_for: NDArray[np.int64],
        pills: Given,
    ):
        self.graph, self.rows, self.marks, self.wears = graph, rows, marks, wears
        self.stands_for, self.pills = stands_for, pills
        largest = warmth.values.copy()
        np.maximum.at(largest, stands_for, warmth.values)
        self.warmth = replace(warmth, values=largest)
        self.boxes: list[Box] = []
        self._box_of = [0] * len(rows)
        self._totals = Totals(rows, marks, self.warmth)
        self._call_of: dict[Item, int] = {}
        self._roots = root_names(rows, stands_for)
        self._leaf_nodes = leaf_nodes(graph, rows, stands_for)

    def set_up(self, top: Group) -> None:
        """Make the boxes of everything in `top`."""
        self._call_of = calls(top, self.rows, self.wears, bool(self.graph.calls))
        waiting: list[tuple[Item, Group, int | None, int]] = [(item, top, None, 1) for item in reversed(top.items)]
        while waiting:
            item, group, parent, copies = waiting.pop()
            if isinstance(item, int):
                box = self._operation(item, group, parent, copies)
            elif (row := _only_row(item)) is not None:
                box = self._operation(row, group, parent, copies * item.times, item)
            else:
                box = self._group(item, group, parent, copies * item.times)
                inside = ((inner, item, box.index, box.copies) for inner in reversed(item.items))
                waiting += inside
            self.boxes.append(box)

    def _operation(
        self, row: int, group: Group, parent: int | None, copies: int, repetition: Group | None = None
    ) -> Box:
        """Make the box of a row; of a repetition that consists of this row alone, if there is one."""
        rows, marks, index = self.rows, self.marks, len(self.boxes)
        self._box_of[row] = index
        kind = self.graph.types[rows.type[row]]
        times = repetition.times if repetition else 1
        path = self.wears.get(row, rows.module[row])
        cls = self.graph.classes.get(path, "") if row in self.wears else ""
        name = self._called(below(path, group.path), group) if row in self.wears else ""
        written = "" if row in self.wears else rows.written.get(row, "")  # else the class says it
        if repetition and repetition.kind == "module":
            name = self._from_to(repetition.path, repetition.last, group)
        elif copies == 1:
            name = self._numbered(name, row)
        value = float(self.warmth.values[row])
        return Box(
            index=index,
            parent=parent,
            kind=_KINDS.get(kind.kind, "op"),
            name=harmless(name),
            op=harmless("leaf" if kind.kind == "leaf" else written or op_name(kind.name)),
            shape=rows.shape[row],
            node=rows.node[row],
            cls=harmless(cls),
            saved=rows.saved[row],
            times=times,
            copies=copies,
            heat=self.warmth.level(value * copies if self.warmth.adds_up else value),
            amount=self.warmth.words(value, times),
            chips=self._chips(row),
            state=rows.state[row],
            root=harmless(", ".join(together(self._roots.get(row, ())))),
            path=harmless(path),
            hot=row in marks.hot,
            shared=row in marks.shared,
            pins=marks.pins.get(row, ()),
        )

    def _chips(self, row: int) -> tuple[Chip, ...]:
        leaves, marks = self.graph.leaves, self.marks
        pairs = zip(self.rows.chips[row], self.rows.leaves[row], strict=False)
        own = tuple(
            Chip(
                harmless(text),
                marks.statuses[leaf],
                (harmless(leaves[leaf].label),),
                leaf in marks.hot_leaves,
                nodes=self._leaf_nodes[row, k],
            )
            for k, (text, leaf) in enumerate(pairs)
        )
        return (*own, *self.pills.get(row, ()))

    def _group(self, group: Group, around: Group, parent: int | None, copies: int) -> Box:
        """Make the box of a group."""
        index, totals = len(self.boxes), self._totals
        span = range(group.start, group.stop)
        last = self.rows.shape[end_row(group.items[-1]) - 1] if group.items else ""
        value = totals.heat(span)
        return Box(
            index=index,
            parent=parent,
            kind=group.kind,
            name=harmless(self._title(group, around)),
            op="",
            shape=last,
            node=self.rows.node[group.start],
            cls=harmless(self.graph.classes.get(group.path, "")) if group.kind == "module" else "",
            inferred=group.kind == "module" and not self.graph.calls,
            saved=totals.saved(span),
            times=group.times,
            copies=copies,
            count=len(span),
            heat=self.warmth.level(value * copies if self.warmth.adds_up else value),
            amount=("" if self.warmth.adds_up or not value else "≤ ") + self.warmth.words(value, group.times),
            chips=self._tally(span),
            state=totals.state(span),
            root=harmless(", ".join(together(chain(*(held for row, held in self._roots.items() if row in span))))),
            path=harmless(group.path),
            hot=totals.hot(span),
            shared=totals.shared(span),
            pins=tuple(sorted({n for row, numbers in self.marks.pins.items() if row in span for n in numbers})),
        )

    def _title(self, group: Group, around: Group) -> str:
        if group.kind == "repeat":
            first = next(filter(None, map(self._path, group.items)), "")
            if first and group.last not in map(self._path, group.items):
                return self._from_to(first, group.last, around)
            return f"{self._called(below(group.path, around.path), around)} repeated".strip()
        if group.kind == "part":
            return f"ops {group.start:,}…{group.stop - 1:,}"
        return self._numbered(self._from_to(group.path, group.last, around), group)

    def _numbered(self, name: str, item: Item) -> str:
        """Return a name with the number of the call, where there are several in the picture."""
        return f"{name} · call {self._call_of[item]}" if name and item in self._call_of else name

    def _from_to(self, path: str, last: str, around: Group) -> str:
        return self._called(_from_to(path, last, around.path), around)

    def _called(self, name: str, around: Group) -> str:
        """Return the name of a module as seen from within `around`: outside of all modules, with the variable."""
        return self.graph.called(name) if name and not around.path else name

    def _path(self, item: Item) -> str:
        return self.wears.get(item, "") if isinstance(item, int) else item.path

    def _tally(self, span: range) -> tuple[Chip, ...]:
        """Return a chip for each status that leaves in a group have, saying how many do."""
        found: dict[Status, dict[int, None]] = {}
        for row in span:
            for k in self.rows.leaves[row]:
                found.setdefault(self.marks.statuses[k], {})[k] = None
        own = tuple(
            Chip(
                f"{len(leaves)} {'leaf' if len(leaves) == 1 else 'leaves'}",
                status,
                tuple(harmless(self.graph.leaves[k].label) for k in list(leaves)[:8]),
                any(k in self.marks.hot_leaves for k in leaves),
                len(leaves),
            )
            for status, leaves in found.items()
        )
        return (*own, *self._tally_of_pills(span))

    def _tally_of_pills(self, span: range) -> Iterator[Chip]:
        """Yield a chip for what was detached in a group, one for frozen parameters, and one for other inputs."""
        kinds: tuple[tuple[Status, str], ...] = (("cut", "detached"), ("frozen", "frozen"), ("given", "inputs"))
        for status, words in kinds:
            pills = (chip for row in span for chip in self.pills.get(row, ()) if chip.status == status)
            names = tuple(dict.fromkeys(name for chip in pills for name in chip.names))
            if names:
                sign = "✂ " if status == "cut" else ""
                yield Chip(f"{sign}{len(names)} {words}", status, names[:8], count=len(names))

    def boxes_by_node(self) -> dict[int, int]:
        """Return the box of each operation, by the index of its node."""
        box_of = [self._box_of[k] for k in self.stands_for.tolist()]
        at, roots = self.graph.leaf_at, {self.rows.node[k] for k in self.rows.roots}
        places = row_by_node(self.graph, self.rows).items()
        return {node: box_of[k] for node, k in places if node not in at or node in roots}

    def links(self) -> dict[tuple[int, int], None]:
        """Return the links between the boxes of operations, each once."""
        stands_for, box_of = self.stands_for.tolist(), self._box_of
        return {
            (box_of[stands_for[j]], box_of[row]): None
            for row, sources in enumerate(self.rows.inputs)
            if stands_for[row] == row
            for j in sources
            if stands_for[j] != row
        }


def _only_row(group: Group) -> int | None:
    only = group.items[0] if len(group.items) == 1 else None
    return only if isinstance(only, int) else None


def _from_to(path: str, last: str, around: str) -> str:
    """Return the name of a module as seen from within `around`; of several, the first and what changes in the last."""
    name = below(path, around)
    if last in ("", path):
        return name
    if path.count(".") != last.count("."):
        return f"{name}…{below(last, around)}"
    parts = [a if a == b else f"{a}…{b}" for a, b in zip(path.split("."), last.split("."), strict=True)]
    return ".".join(parts[path.count(".") - name.count(".") :])
