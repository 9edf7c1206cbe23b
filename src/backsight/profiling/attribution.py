"""Attribution: every moment of a timeline belongs to one node, operation or optimizer, and to one phase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from backsight.profiling._torch import ACCUMULATE, EVALUATED, OPTIMIZER, Event, Trace, node_name
from backsight.profiling.row import Kind, Row
from backsight.profiling.subjects import LeafName, Place
from backsight.profiling.timeline import Makers, Timeline
from backsight.tape.modules import OUTSIDE

Phase = Literal["forward", "recomputed", "backward", "update"]
_SECONDS = 1e-9

_MADE_AT_ONCE = 4
"""Nodes that one operation makes at most: one in place on a view makes its own, CopySlices, and the view's anew."""


@dataclass(eq=False)
class Owner:
    """Something that takes time: a node, an operation without one, or an optimizer."""

    op: str
    kind: Kind
    place: Place | None = None
    module: str | None = None  # where there is no mark
    leaf: LeafName | None = None
    calls: Counter[str] = field(default_factory=Counter)
    times: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Scope:
    """What holds inside of an event: whose time it is, and which module runs.

    `node_end` is the end of the node that runs backward around it, 0 for none. Within a `composite` operation, which
    makes its nodes in the operations that it calls, those take their time themselves.
    """

    owner: Owner | None = None
    phase: Phase = "forward"
    place: Place | None = None
    node_end: int = 0
    composite: bool = False


@dataclass(frozen=True)
class Meaning:
    """What a trace does not say itself: what marks mean, how many nodes each thread had made at the end, and the
    modules of nodes that were made before the trace began, by the node's name and sequence number."""

    modules: Mapping[str, Place]
    leaves: Mapping[str, LeafName]
    made: Mapping[int, int]
    earlier: Mapping[tuple[str, int], str | None]


class Attribution:
    """Goes through a timeline once; then `rows` are the times, and `covered` the nanoseconds by thread."""

    def __init__(self, trace: Trace, meaning: Meaning):
        self.timeline = Timeline.of(trace.events)
        self.covered: Counter[int] = Counter()
        self._meaning = meaning
        self._makers = Makers.of(self.timeline, meaning.made)
        self._owners: list[Owner] = []
        self._made_in: dict[tuple[int, int], Owner] = {}  # the owner that made a node, by the node's key
        self._composites: dict[int, Owner] = {}
        scopes: list[Scope] = []
        for i, event in enumerate(self.timeline.events):
            around = self.timeline.parent[i]
            scope = self._scope(i, event, scopes[around] if around >= 0 else Scope())
            scopes.append(scope)
            if scope.owner is not None:
                scope.owner.times[scope.phase] += self.timeline.alone[i]
                scope.owner.times[f"device_{scope.phase}"] += trace.on_device.get(event.correlation, 0)
                self.covered[event.thread] += self.timeline.alone[i]

    def rows(self) -> list[Row]:
        """Return a row for each owner, not yet added up."""
        models = {owner.place.model for owner in self._owners if owner.place and owner.place.weighs}
        return [self._row(owner, len(models) > 1) for owner in self._owners]

    def _row(self, owner: Owner, several: bool) -> Row:
        times = {phase: nanoseconds * _SECONDS for phase, nanoseconds in owner.times.items()}
        module = owner.module
        if owner.place is not None:
            module = owner.place.full if several or not owner.place.weighs else owner.place.path
        names = owner.leaf.names if owner.leaf else ()
        row = Row(owner.op, module, names, owner.kind, owner.calls["forward"], owner.calls["backward"])
        return replace(row, **times)  # type: ignore[arg-type]  # the fields named by Phase

    def _scope(self, i: int, event: Event, around: Scope) -> Scope:
        if event.name in self._meaning.leaves:
            return self._arrived(self._meaning.leaves[event.name], around)
        if event.name in self._meaning.modules:
            return Scope(None, self._phase(around), self._meaning.modules[event.name], around.node_end)
        if event.is_annotation:
            return self._annotated(event, around)
        if event.name.startswith(EVALUATED):
            return self._evaluated(event, around)
        if event.is_node_call:
            return self._called(event, around)
        return self._operation(i, event, around)

    def _arrived(self, leaf: LeafName, around: Scope) -> Scope:
        if around.owner is not None and around.owner.kind == "leaf":
            around.owner.leaf, around.owner.place = leaf, leaf.place
        return around

    def _annotated(self, event: Event, around: Scope) -> Scope:
        for prefix in OPTIMIZER:
            if event.name.startswith(prefix):
                owner = self._new(event.name[len(prefix) :], "optimizer")
                owner.calls["forward"] += 1
                return Scope(owner, "update", around.place, around.node_end)
        return around

    def _evaluated(self, event: Event, around: Scope) -> Scope:
        name = node_name(event)
        made_by = self._maker_of(event)
        if name == ACCUMULATE:
            owner = self._new(name, "leaf")
        elif made_by is not None and made_by.op == name:
            owner = made_by
        else:
            owner = self._new(name, "node", made_by.place if made_by else None)
            owner.module = made_by.module if made_by else self._meaning.earlier.get((name, event.sequence))
        return Scope(owner, "backward", owner.place, max(event.end, around.node_end))

    def _called(self, event: Event, around: Scope) -> Scope:
        """A node is called by the engine, or by the node of an operation in place on a view, which wraps it."""
        made_by = self._made_in.get((event.forward_thread, event.sequence))
        owner = made_by if made_by is not None and made_by.op == node_name(event) else around.owner
        if owner is not None:
            owner.calls["backward"] += 1
        return replace(around, owner=owner)

    def _maker_of(self, event: Event) -> Owner | None:
        """Return what made a node: an operation that makes several begins with the number of the first."""
        numbers = range(event.sequence, max(-1, event.sequence - _MADE_AT_ONCE), -1)
        made = (self._made_in.get((event.forward_thread, number)) for number in numbers)
        return next((owner for owner in made if owner is not None), None)

    def _operation(self, i: int, event: Event, around: Scope) -> Scope:
        made = self._makers.node_of.get(i)
        if made is not None:
            if self._is_own_work(made, around):
                assert around.owner is not None
                self._made_in[made] = around.owner  # a node of second order: what made it is this node's backward
                return around
            owner = self._made_in[made] = self._composites.get(i) or self._maker(i, around.place)
            owner.calls["forward"] += not around.node_end
            return Scope(owner, self._phase(around), around.place, around.node_end)
        if around.owner is not None and not around.composite:
            return around
        first = self._makers.first_in.get(i)
        if first is not None:
            owner = self._composites.get(first) or self._maker(first, around.place)
            self._composites[first] = owner
            return Scope(owner, self._phase(around), around.place, around.node_end, composite=True)
        if around.owner is not None:
            return around
        owner = self._seen(event.name, "operation", around.place)
        owner.calls["forward"] += 1
        return Scope(owner, self._phase(around), around.place, around.node_end)

    def _is_own_work(self, made: tuple[int, int], around: Scope) -> bool:
        """Whether a node's backward, which records gradients too, made this node, and no forward pass inside of it.

        Such a forward pass goes through a module, or runs backward before the node around it ends.
        """
        if around.owner is None or around.phase != "backward":
            return False
        ran = self._makers.ran.get(made)
        return ran is None or ran > around.node_end

    def _maker(self, i: int, place: Place | None) -> Owner:
        name = self._makers.names.get(self._makers.node_of[i])
        return self._seen(name or self.timeline.events[i].name, "node" if name else "operation", place)

    def _seen(self, op: str, kind: Kind, place: Place | None) -> Owner:
        """Return an owner whose operation ran in this trace: without a mark around it, it ran in no module."""
        owner = self._new(op, kind, place)
        owner.module = OUTSIDE if self._meaning.modules else None
        return owner

    def _phase(self, around: Scope) -> Phase:
        return "recomputed" if around.node_end else "forward"

    def _new(self, op: str, kind: Kind, place: Place | None = None) -> Owner:
        owner = Owner(op, kind, place)
        self._owners.append(owner)
        return owner
