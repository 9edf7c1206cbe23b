"""The rules of an audit, what they look at, and what an audit remembers of the last one at its call site."""

from __future__ import annotations

import ast
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray

from backsight.diagnosis.registry import Rules
from backsight.diagnosis.wording import listed
from backsight.naming import search
from backsight.snapshot import groups
from backsight.source import Body, Place, assignments, statement_at
from backsight.source.bindings import parameters_of
from backsight.source.body import body_around
from backsight.source.definitions import flow_of, reaching
from backsight.tape import Graph, Node, Saved
from backsight.tape.saved import memory
from backsight.tracing import End, Line, Met, Operation, StepLog, current, ended, met
from backsight.tracing.changes import version
from backsight.tracing.steps import Consumed, parameters

Moment = Literal["before backward", "during backward", "before step"]


@dataclass(frozen=True)
class Scene:
    """A named graph and what stands around it.

    `past` is the last audit at the same call site, `steps` the optimizer steps if a watch is running. During and after
    a backward, part of the graph has rightly been freed. `saved_names` are the names, by id, of saved tensors that are
    modified or not finite; `loss_is_finite` is None where the values cannot be looked at. `chosen` tells whether the
    optimizers are those that the caller gave, as the ones that are to learn from this loss.
    """

    graph: Graph
    models: Mapping[str, torch.nn.Module]
    optimizers: Mapping[str, torch.optim.Optimizer]
    steps: StepLog | None = None
    past: Past | None = None
    moment: Moment = "before backward"
    saved_names: Mapping[int, str] = field(default_factory=dict)
    site: Site = ("", 0)
    loss_is_finite: bool | None = None
    chosen: bool = False

    @property
    def running(self) -> Place | None:
        """The statement that runs the backward within which this is looked at, if a watch has noted it."""
        watch = current() if self.moment == "during backward" else None
        last = watch.backwards[-1] if watch is not None and watch.backwards else None
        known = last is not None and last.line is not None and (last.line.file, last.line.line) == self.site
        return last.line.place if known and last is not None and last.line is not None else None

    @property
    def is_checkpointed(self) -> bool:
        """Whether reentrant checkpoints hide what ran inside them: then the graph does not show what it depends on."""
        return any(kind.kind == "checkpoint" for kind in self.graph.types)

    def involved(self) -> dict[str, torch.optim.Optimizer]:
        """Return the optimizers that hold a leaf of the graph; others belong to other losses, or other threads."""
        reached = self.reached()
        return {
            name: optimizer
            for name, optimizer in self.optimizers.items()
            if any(id(p) in reached for group in groups(optimizer) for p in group["params"])
        }

    def names(self, tensors: Sequence[torch.Tensor]) -> list[str]:
        """Return what the program calls each of `tensors`, else its place in an optimizer."""
        found = search(tensors, limit=2).names
        return [
            next((n.path for n in names if not n.path.endswith(".<key>")), "") or self._place(tensor)
            for tensor, names in zip(tensors, found, strict=True)
        ]

    def listed(self, tensors: Sequence[torch.Tensor], limit: int = 4) -> str:
        """`model.0.weight, model.0.bias and 6 more`."""
        return listed([*self.names(tensors[:limit]), *([""] * len(tensors[limit:]))], limit)

    def name_of_saved(self, saved: Saved) -> str:
        """Return the name of a saved tensor, else of a leaf or variable that shares its memory, else nothing."""
        known = self.saved_names.get(id(saved.tensor()))
        if known or saved.storage is None:
            return known or ""
        leaf = next((leaf.name for leaf in self.graph.leaves if leaf.storage == saved.storage and leaf.name), "")
        shares = lambda tensor: memory(tensor)[0] == saved.storage  # noqa: E731  # what is asked of each tensor
        sharing = (n.path for _, n in (() if leaf else search((), collect=(torch.Tensor,), where=shares).found))
        return leaf or next(sharing, "")

    def _place(self, tensor: torch.Tensor) -> str:
        for name, optimizer in self.optimizers.items():
            for g, group in enumerate(groups(optimizer)):
                for k, parameter in enumerate(group["params"]):
                    if parameter is tensor:
                        return f"{name}.param_groups[{g}]['params'][{k}]"
        return f"a tensor of shape {tuple(tensor.shape)}"

    def met(self) -> dict[int, Met]:
        """Return what an exact watch saw meet in the operations of this graph, by the index of a node."""
        return self._met

    @cached_property
    def _met(self) -> dict[int, Met]:
        watch = current()
        if watch is None or watch.level != "exact":
            return {}
        index = {number: node.index for node in self.graph.nodes if (number := node.sequence) is not None}
        return {index[number]: each for number, each in met(watch, list(index)).items()}

    @property
    def began(self) -> int:
        """The number of the first node that this thread has made since its last optimizer step."""
        return self.steps.marks.get(threading.get_ident(), 0) if self.steps is not None else 0

    def ended(self) -> list[End]:
        """Return where an exact watch saw tensors handed to NumPy, with the leaves behind them."""
        watch = current()
        return ended(watch) if watch is not None else []

    def line_of(self, node: Node) -> Line | None:
        """Return the line that made a node, if a watch has noted it."""
        return line_of(node)

    def assigned(self, held: object) -> Place | None:
        """The statement that gave a variable what it holds; None where more than one may have, or an import did."""
        for name in search([held], limit=2).names[0]:
            if name.exact and name.file is not None and name.line is not None:
                body = body_around(name.file, name.line)
                places = assignments(body, name.path)
                if len(places) > 1 and body is not None:
                    places = _last_of(body, name.path, name.line)
                if len(places) == 1 and body is not None and name.path not in parameters_of(body.node):
                    made = statement_at(body, *places[0].position)
                    return None if isinstance(made, ast.Import | ast.ImportFrom) else places[0]
        return None

    def reached(self) -> set[int]:
        """Return the ids of the leaves of the graph."""
        return {id(leaf.tensor()) for leaf in self.graph.leaves}


RULES: Rules[Scene] = Rules()

rule = RULES.enter


def line_of(node: Node) -> Line | None:
    """Return the line that made a node, if a watch has noted it."""
    watch = current()
    return watch.line_of(node) if watch is not None else None


def operation_of(node: Node) -> Operation | None:
    """Return the operation that made a node, if a watch has noted it."""
    watch = current()
    return watch.operation_of(node) if watch is not None else None


def _last_of(body: Body, name: str, line: int) -> tuple[Place, ...]:
    """The statement that gave a variable the value it has at a line, as the text shows; several if it may be any."""
    flow, statement = flow_of(body.node), statement_at(body, line)
    use = next((spot for spot in flow.spots if spot.node is statement), None)
    found, complete = reaching(flow, name, use) if use is not None else ([], False)
    return tuple(body.place(each.spot.node) for each in found if complete and each.replaces)


Site = tuple[str, int]
"""File and line of a call."""

_Where = tuple[int, str, int]
"""Thread, file and line: another thread's tensors may be amid a backward, and are not to be looked at."""

_LIMIT = 64
_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Growth:
    """One audited graph compared with the one before it at the same place.

    `size` counts its operations, `carried` those that were in the graph before; `trained` says whether a backward or an
    optimizer step ran in between.
    """

    size: int
    carried: int
    trained: bool


@dataclass(frozen=True)
class Past:
    """One audit as the next one at its call site needs it.

    `operations` identify the graph's operations, `growth` is that of the last graphs. `gradients` and `versions` are
    by the id of the parameter, `leaves` and `uses` by the id of the leaf: the number of the first operation on it.
    `given` names the leaves that are no parameters and that no optimizer holds.
    """

    operations: NDArray[np.uint64]
    growth: tuple[Growth, ...]
    gradients: dict[int, Consumed]
    versions: dict[int, tuple[weakref.ref[torch.Tensor], int]]
    leaves: dict[int, weakref.ref[torch.Tensor]]
    uses: dict[int, int]
    given: frozenset[str]

    def had_leaf(self, tensor: torch.Tensor | None) -> bool:
        """Whether this very tensor was a leaf of the graph of then."""
        held = self.leaves.get(id(tensor))
        return tensor is not None and held is not None and held() is tensor

    def was_changed(self, tensor: torch.Tensor) -> bool:
        """Whether this very tensor was known then and has been changed in place since."""
        held = self.versions.get(id(tensor))
        return held is not None and held[0]() is tensor and version(tensor) > held[1]

    def got_gradient(self, tensor: torch.Tensor) -> bool:
        """Whether its gradient is another one now than it was then."""
        then = self.gradients.get(id(tensor))
        return tensor.grad is not None and (then is None or not then.is_untouched(tensor.grad))


_past: dict[_Where, Past] = {}
_lock = threading.Lock()


def recall(site: Site) -> Past | None:
    """Return the last audit at `site` in this thread."""
    with _lock:
        return _past.get((threading.get_ident(), *site))


def remember(site: Site, graph: Graph, optimizers: Iterable[torch.optim.Optimizer]) -> None:
    """Keep what the next audit at `site` in this thread will compare with; the oldest goes when there are too many."""
    before, place = recall(site), (threading.get_ident(), *site)
    leaves = [t for leaf in graph.leaves if (t := leaf.tensor()) is not None]
    tensors = [*leaves, *(p for optimizer in optimizers for p in parameters(optimizer))]
    past = Past(
        operations(graph),
        _grown(before, graph),
        {id(p): Consumed(weakref.ref(p.grad), version(p.grad)) for p in tensors if p.grad is not None},
        {id(p): (weakref.ref(p), version(p)) for p in tensors},
        {id(leaf): weakref.ref(leaf) for leaf in leaves},
        first_uses(graph),
        frozenset(leaf.name for leaf in graph.leaves if leaf.kind != "parameter" and not leaf.owner and leaf.name),
    )
    with _lock:
        _past.pop(place, None)
        while len(_past) >= _LIMIT:
            del _past[next(iter(_past))]
        _past[place] = past


def _grown(before: Past | None, graph: Graph) -> tuple[Growth, ...]:
    if before is None:
        return (Growth(len(operations(graph)), 0, False),)
    if np.array_equal(operations(graph), before.operations):
        return before.growth  # the same graph, audited again
    return (*before.growth, growth_since(before, graph))[-2:]


def growth_since(past: Past, graph: Graph) -> Growth:
    """Compare `graph` with the one audited before it."""
    mine = operations(graph)
    carried = len(np.intersect1d(mine, past.operations, assume_unique=True))
    known = [tensor for ref, _ in past.versions.values() if (tensor := ref()) is not None]
    return Growth(len(mine), carried, any(past.was_changed(t) or past.got_gradient(t) for t in known))


def first_uses(graph: Graph) -> dict[int, int]:
    """Return the sequence number of the first operation on each leaf, by the id of the leaf."""
    columns = graph.columns
    consumers = np.repeat(columns.sequence.astype(np.int64), np.diff(columns.start))
    first = np.full(len(graph), np.iinfo(np.int64).max)
    known = columns.inputs >= 0
    np.minimum.at(first, columns.inputs[known], consumers[known])
    return {id(tensor): int(first[leaf.node]) for leaf in graph.leaves if (tensor := leaf.tensor()) is not None}


def operations(graph: Graph) -> NDArray[np.uint64]:
    """Return what identifies each operation of `graph` while it lives, sorted: its two numbers in one."""
    columns = graph.columns
    is_leaf = np.array([t.kind == "leaf" for t in graph.types], bool)[columns.type]
    # Two operations alike in this sum differ in both parts by one multiple: never seen, and only a count would be off.
    # Not np.unique, which imports numpy.ma: that takes longer than all else here.
    return np.sort((columns.ids * _SPREAD + columns.sequence)[~is_leaf])
