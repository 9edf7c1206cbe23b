"""Timeline: the events of a trace as they are nested in each thread, and which of them made which autograd node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from backsight.profiling._torch import Event, node_name

Key = tuple[int, int]
"""An autograd node: the thread that made it, and its sequence number there."""


@dataclass(frozen=True)
class Timeline:
    """Events in order of their start, so that an event stands after the one that it lies in.

    `parent` is the position of that one, -1 for none; `alone` the nanoseconds of an event without the events in it.
    """

    events: list[Event]
    parent: list[int]
    alone: list[int]

    @classmethod
    def of(cls, events: list[Event]) -> Timeline:
        """Nest the events of each thread by their times."""
        ordered = sorted(events, key=lambda event: (event.start, -event.end))
        parent, alone = [], []
        open_in: dict[int, list[int]] = {}
        for i, event in enumerate(ordered):
            around = open_in.setdefault(event.thread, [])
            while around and ordered[around[-1]].end < event.end:
                around.pop()
            parent.append(around[-1] if around else -1)
            alone.append(event.end - event.start)
            if around:
                alone[around[-1]] -= alone[i]
            around.append(i)
        return cls(ordered, parent, alone)


@dataclass(frozen=True)
class Makers:
    """The nodes of a timeline. `node_of` has the key of the node that an event made, by the event's position.

    `names` has the names of the nodes that ran backward, and of those that a checkpoint made a second time, which
    never run; `first_in` the first event that made a node inside an event; `ran` when a node first ran backward.
    """

    node_of: dict[int, Key]
    names: dict[Key, str]
    first_in: dict[int, int]
    ran: dict[Key, int]

    @classmethod
    def of(cls, timeline: Timeline, made: Mapping[int, int]) -> Makers:
        """Find them. `made` has, by thread, how many nodes it has made; as far as is known.

        An operation begins with the number that the next node will get, whether or not it will make one. So the last
        operation that began with a number made the node.
        """
        last: dict[Key, int] = {}
        names: dict[Key, str] = {}
        ran: dict[Key, int] = {}
        end = dict(made)
        for i, event in enumerate(timeline.events):
            if event.sequence < 0:
                continue
            if event.forward_thread:
                names.setdefault(node := (event.forward_thread, event.sequence), node_name(event))
                ran.setdefault(node, event.start)
            else:
                last[event.thread, event.sequence] = i
                end[event.thread] = max(end.get(event.thread, 0), event.sequence)
        node_of = {i: key for key, i in last.items() if key in names or key[1] < end[key[0]]}
        called = {timeline.events[i].name: names[key] for i, key in node_of.items() if key in names}
        for i, key in node_of.items():
            name = called.get(timeline.events[i].name)
            if name:
                names.setdefault(key, name)
        return cls(node_of, names, _first_in(timeline, node_of), ran)


def _first_in(timeline: Timeline, node_of: Mapping[int, Key]) -> dict[int, int]:
    first: dict[int, int] = {}
    for i in sorted(node_of):
        around = timeline.parent[i]
        while around >= 0 and around not in first:
            first[around] = i
            around = timeline.parent[around]
    return first
