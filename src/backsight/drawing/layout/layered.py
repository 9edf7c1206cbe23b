"""A layered drawing of one frame: boxes in ranks, wires that run down between them and cross no box.

Wires bend only in the gaps between ranks; through a rank they run straight down, in a place of their own.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from backsight.drawing.layout.columns import STRAIGHT, Joint, across, straightened
from backsight.drawing.layout.ordering import ordered
from backsight.drawing.layout.ranks import ranks

BOX_GAP = 22.0
WIRE_GAP = 12.0
RANK_GAP = 22.0
STEEPEST = 0.08
"""How much higher a gap becomes for each unit that a wire in it must move sideways, up to `RANK_GAP` more."""
LONGEST = 12
"""A wire over more ranks than this runs in a lane at the side."""
ARRIVAL_GAP = 12.0


class Wire(NamedTuple):
    """From the bottom of box `a` to the top of box `b`, at so many units beside their middles."""

    a: int
    b: int
    out_at: float = 0.0
    in_at: float = 0.0


Point = tuple[float, float]


@dataclass(frozen=True)
class Layered:
    """Where the middle of each box stands, and the points of each wire: straight down, or a curve between two.

    Points come in order of y; from each to the next a wire is a vertical, or an S whose ends are vertical.
    """

    middles: tuple[Point, ...]
    wires: tuple[tuple[Point, ...], ...]
    width: float
    height: float


def layered(
    sizes: Sequence[tuple[float, float]],
    wires: Sequence[Wire],
    entries: Sequence[int] = (),
    exits: Sequence[int] = (),
    spread: Sequence[bool] = (),
) -> Layered:
    """Place boxes of the given sizes so that all wires run downwards.

    ```python
    layered([(60, 30), (60, 30)], [Wire(0, 1)]).middles     # ((30.0, 15.0), (30.0, 67.0))
    ```

    Args:
        sizes: width and height of each box; a smaller number stands further left where nothing else decides.
        wires: each leads from a smaller number to a larger one, apart from entries and exits.
        entries: boxes at the top edge: where wires come in.
        exits: boxes at the bottom edge.
        spread: for each box, whether wires, all of which lead to its middle, should arrive side by side.
    """
    if not sizes:
        return Layered((), (), 0.0, 0.0)
    rank = ranks(len(sizes), [(w.a, w.b) for w in wires], entries, exits)
    net = _Net(sizes, wires, rank)
    layers = ordered(net.layers(), net.up, net.down, net.key)
    gaps = [[net.gap(a, b) for a, b in itertools.pairwise(layer)] for layer in layers]
    x = across(layers, net.widths, gaps, net.up, net.down)
    x = straightened(net.columns(), layers, net.widths, gaps, x)
    if len(entries) == len(exits) == 1:  # or frames that follow each other would go down like stairs
        x[entries[0]] = x[exits[0]]
    lanes = net.lanes(x)
    routes = [net.route(k, x, lanes) for k in range(len(wires))]
    if spread:
        routes = _spread(routes, wires, sizes, spread)
    return _drawn(net, sizes, x, routes)


def _drawn(
    net: _Net, sizes: Sequence[tuple[float, float]], x: Sequence[float], routes: Sequence[Sequence[float]]
) -> Layered:
    """Return the drawing once it is known where everything stands from left to right."""
    bands = _bands(sizes, net.rank, routes, net.wires)
    edges = [(place - width / 2, place + width / 2) for place, width in zip(x, net.widths, strict=True)]
    left = min(min(low for low, _ in edges), min((place for route in routes for place in route), default=math.inf))
    right = max(max(high for _, high in edges), max((place for route in routes for place in route), default=-math.inf))
    middles = tuple((x[v] - left, sum(bands[net.rank[v]]) / 2) for v in range(len(sizes)))
    lines = []
    for wire, route in zip(net.wires, routes, strict=True):
        start = middles[wire.a][1] + sizes[wire.a][1] / 2
        stop = middles[wire.b][1] - sizes[wire.b][1] / 2
        lines.append(_points([place - left for place in route], bands, net.rank[wire.a], start, stop))
    return Layered(middles, tuple(lines), right - left, bands[-1][1])


class _Net:
    """The boxes and, for each rank that a wire passes, a place for it."""

    def __init__(self, sizes: Sequence[tuple[float, float]], wires: Sequence[Wire], rank: Sequence[int]):
        self.boxes, self.wires = len(sizes), wires
        self.rank = list(rank)
        self.widths = [width for width, _ in sizes]
        self.key: list[float] = [float(v) for v in range(len(sizes))]
        self.up: list[list[Joint]] = [[] for _ in sizes]
        self.down: list[list[Joint]] = [[] for _ in sizes]
        self.passing: list[list[int]] = []
        self.long = {k for k, w in enumerate(wires) if rank[w.b] - rank[w.a] > LONGEST}
        for k, wire in enumerate(wires):
            self.passing.append([] if k in self.long else self._places(wire))

    def _places(self, wire: Wire) -> list[int]:
        """Make a place in each rank between the ends of `wire`, and join them."""
        places = []
        above, at = wire.a, wire.out_at
        for r in range(self.rank[wire.a] + 1, self.rank[wire.b]):
            place = len(self.widths)
            self.widths.append(0.0)
            self.rank.append(r)
            self.key.append(self.key[wire.a] + 0.5 if self.rank[wire.a] else -0.5)
            self.up.append([])
            self.down.append([])
            self._join(above, place, at, 0.0)
            places.append(place)
            above, at = place, 0.0
        self._join(above, wire.b, at, wire.in_at)
        return places

    def _join(self, a: int, b: int, out_at: float, in_at: float) -> None:
        weight = STRAIGHT if a >= self.boxes and b >= self.boxes else 1.0
        leaves, reaches = out_at / (self.widths[a] or 1.0), in_at / (self.widths[b] or 1.0)
        self.down[a].append(Joint(b, out_at - in_at, weight, leaves, reaches))
        self.up[b].append(Joint(a, in_at - out_at, weight, reaches, leaves))

    def layers(self) -> list[list[int]]:
        """Return the boxes and places of each rank."""
        layers: list[list[int]] = [[] for _ in range(max(self.rank) + 1)]
        for v, r in enumerate(self.rank):
            layers[r].append(v)
        return layers

    def gap(self, a: int, b: int) -> float:
        """Return how much space there is between two neighbours."""
        return BOX_GAP if self.widths[a] and self.widths[b] else WIRE_GAP

    def columns(self) -> list[list[tuple[int, float]]]:
        """Return what should stand in one vertical: the places of a wire, and boxes of which each feeds the next.

        Of several consumers the next one counts, of several producers the last one: that is the trunk, and what runs
        past it are the branches.
        """
        columns = [[(place, 0.0) for place in places] for places in self.passing if len(places) > 1]
        next_box = {v: min(below) for v in range(self.boxes) if (below := self._near(self.down[v]))}
        last_box = {v: max(above) for v in range(self.boxes) if (above := self._near(self.up[v]))}
        for v in [v for v, (u, _) in last_box.items() if not self.up[u] and len(self.up[v]) > 1]:
            del last_box[v]  # what only joins two beginnings stands between them
        for v in range(self.boxes):
            if v in last_box and next_box.get(last_box[v][0], (-1,))[0] == v:
                continue  # not the first of its column
            column, shift = [(v, 0.0)], 0.0
            while (step := next_box.get(column[-1][0])) and last_box.get(step[0], (-1,))[0] == column[-1][0]:
                shift += step[1]
                column.append((step[0], shift))
            columns.append(column)
        return sorted((column for column in columns if len(column) > 1), key=len, reverse=True)

    def _near(self, joints: Sequence[Joint]) -> list[tuple[int, float]]:
        return [(joint.box, joint.shift) for joint in joints if joint.box < self.boxes]

    def lanes(self, x: Sequence[float]) -> dict[int, float]:
        """Return where each wire that is too long runs: in a lane to the right of everything, shared if it can be."""
        right = max(place + width / 2 for place, width in zip(x, self.widths, strict=True))
        ends: list[int] = []
        lanes: dict[int, float] = {}
        for k in sorted(self.long, key=lambda k: (self.rank[self.wires[k].a], k)):
            top, bottom = self.rank[self.wires[k].a], self.rank[self.wires[k].b]
            lane = next((i for i, end in enumerate(ends) if end <= top), len(ends))
            ends[lane : lane + 1] = [bottom]
            lanes[k] = right + BOX_GAP + lane * WIRE_GAP
        return lanes

    def route(self, k: int, x: Sequence[float], lanes: dict[int, float]) -> list[float]:
        """Return where a wire begins, where it passes each rank, and where it ends, from left to right."""
        wire = self.wires[k]
        passed = self.rank[wire.b] - self.rank[wire.a] - 1
        inner = [lanes[k]] * passed if k in self.long else [x[place] for place in self.passing[k]]
        return [x[wire.a] + wire.out_at, *inner, x[wire.b] + wire.in_at]


def _spread(
    routes: Sequence[list[float]], wires: Sequence[Wire], sizes: Sequence[tuple[float, float]], spread: Sequence[bool]
) -> list[list[float]]:
    """Let the wires that reach a box arrive side by side, in the order in which they come."""
    arriving: dict[int, list[int]] = defaultdict(list)
    for k, wire in enumerate(wires):
        if spread[wire.b]:
            arriving[wire.b].append(k)
    out = [list(route) for route in routes]
    for b, several in arriving.items():
        several.sort(key=lambda k: (routes[k][-2], k))
        step = min(ARRIVAL_GAP, sizes[b][0] * 0.7 / len(several))
        for i, k in enumerate(several):
            out[k][-1] += (i - (len(several) - 1) / 2) * step
    return out


def _bands(
    sizes: Sequence[tuple[float, float]], rank: Sequence[int], routes: Sequence[Sequence[float]], wires: Sequence[Wire]
) -> list[tuple[float, float]]:
    """Return where each rank begins and ends, from above; a gap in which wires move far is higher."""
    count = max(rank) + 1
    heights, sideways = [0.0] * count, [0.0] * count
    for v, (_, height) in enumerate(sizes):
        heights[rank[v]] = max(heights[rank[v]], height)
    for wire, route in zip(wires, routes, strict=True):
        for k, (a, b) in enumerate(itertools.pairwise(route)):
            sideways[rank[wire.a] + k] = max(sideways[rank[wire.a] + k], abs(a - b))
    bands, y = [], 0.0
    for height, far in zip(heights, sideways, strict=True):
        bands.append((y, y + height))
        y += height + RANK_GAP + min(RANK_GAP, far * STEEPEST)
    return bands


def _points(
    route: Sequence[float], bands: Sequence[tuple[float, float]], top: int, start: float, stop: float
) -> tuple[Point, ...]:
    points = [(route[0], start), (route[0], bands[top][1])]
    for k, place in enumerate(route[1:-1], top + 1):
        points += [(place, bands[k][0]), (place, bands[k][1])]
    last = top + len(route) - 1
    points += [(route[-1], bands[last][0]), (route[-1], stop)]
    slim = points[:1]
    for before, point, after in zip(points, points[1:], points[2:], strict=False):
        if not before[0] == point[0] == after[0]:
            slim.append(point)
    return (*slim, points[-1])
