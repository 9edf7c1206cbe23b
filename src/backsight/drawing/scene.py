"""The folded picture as plain data: boxes within boxes, and the links between them. What every format is made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

BoxKind = Literal["op", "custom", "region", "leaf", "module", "repeat", "part"]
Status = Literal["trained", "untrained", "frozen", "overwritten", "unknown", "given", "cut"]
STATUSES: dict[Status, str] = {
    "trained": "in an optimizer",
    "untrained": "in no optimizer",
    "frozen": "frozen: no longer requires grad",
    "overwritten": "its variable was overwritten",
    "unknown": "leaf",
    "given": "needs no gradient",
    "cut": "✂ detached: no gradient flows into it",
}
"""What can be said of a leaf, and how a legend says it."""


@dataclass(frozen=True)
class Chip:
    """A leaf that an operation consumes, or how many of one status there are in a group and the names of the first.

    `nodes` are the indices of the nodes at which gradients reach the leaf, in every copy of the operation.
    """

    text: str
    status: Status
    names: tuple[str, ...]
    hot: bool = False
    count: int = 1
    nodes: tuple[int, ...] = ()


@dataclass(frozen=True)
class Box:
    """An operation, or a group of boxes: a module's call, a repetition, or a part of what is too long.

    `name` says which module made it, `cls` of which class that is, and `op` which operation it is. `inferred` marks a
    module whose calls nobody has seen. `saved` are the bytes that one copy keeps and
    `times` how many copies it stands for, by itself; `copies` counts those of the groups around it too. `count` is the
    number of operations in one copy. `node` is the index in `graph.nodes` of the (first) operation, `parent` the index
    of the box around it. `heat` is 0 to 4 and `amount` what it is made of, in words. `hot` marks the highlighted path,
    `shared` what another graph contains too, `state` saved tensors that were freed or modified; `pins` are numbers of
    remarks, from 1 on.
    """

    index: int
    parent: int | None
    kind: BoxKind
    name: str
    op: str
    shape: str
    node: int
    cls: str = ""
    saved: int = 0
    times: int = 1
    copies: int = 1
    count: int = 1
    heat: int = 0
    amount: str = ""
    chips: tuple[Chip, ...] = ()
    state: str = ""
    root: str = ""
    path: str = ""
    hot: bool = False
    shared: bool = False
    pins: tuple[int, ...] = ()
    opened: bool = False
    inferred: bool = False

    @property
    def is_group(self) -> bool:
        """Whether there are boxes within it."""
        return self.kind in ("module", "repeat", "part")

    @property
    def verdict(self) -> Literal["", "bad", "gone", "hooked"]:
        """What its state means to backward: it will raise, it has been through, or hooks will be asked."""
        if "modified" in self.state:
            return "bad"
        return "gone" if "freed" in self.state else "hooked" if self.state else ""


@dataclass(frozen=True)
class Remark:
    """What a pin says."""

    number: int
    text: str


@dataclass(frozen=True)
class Scene:
    """A picture: `boxes` in forward order, each before those within it, and `links` from a producer to a consumer.

    All boxes are here, also those within closed ones; `shown` are the indices of those that the picture shows as such:
    operations and closed groups whose groups around them are all open. `at` gives the box of each operation by the
    index of its node: its own, or that of the copy which is drawn, or of what consumes a view that is not.
    """

    title: str
    summary: str
    boxes: tuple[Box, ...]
    links: tuple[tuple[int, int], ...]
    scale: tuple[str, tuple[str, ...]]
    remarks: tuple[Remark, ...] = ()
    notes: tuple[str, ...] = ()
    at: dict[int, int] = field(default_factory=dict)

    @cached_property
    def stands_for(self) -> tuple[int, ...]:
        """For each box the one by which it is shown: itself, or the closed group around it."""
        out: list[int] = []
        for box in self.boxes:
            around = out[box.parent] if box.parent is not None else -1
            closed = around >= 0 and not (self.boxes[around].is_group and self.boxes[around].opened)
            out.append(around if closed else box.index)
        return tuple(out)

    @property
    def shown(self) -> Iterator[int]:
        """The boxes that are shown as one: operations and closed groups."""
        return (b.index for b in self.boxes if self.stands_for[b.index] == b.index and not (b.is_group and b.opened))

    @cached_property
    def shown_links(self) -> tuple[tuple[int, int], ...]:
        """The links between boxes that are shown, each once."""
        ends = ((self.stands_for[a], self.stands_for[b]) for a, b in self.links)
        return tuple(dict.fromkeys((a, b) for a, b in ends if a != b))
