"""Where boxes stand from left to right: near what they are joined to, in straight columns, without overlap."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

SWEEPS = 10
STRAIGHT = 8.0
"""How much more a long wire wants to be straight than a box wants to stand below its producer."""


@dataclass(frozen=True)
class Joint:
    """A wire as seen from one of its ends.

    `box` is what it leads to, `shift` how far that box's middle is from this one's when the wire is straight, `weight`
    how much it wants to be. `here` and `there` say where it is attached at either end, in widths from the middle.
    """

    box: int
    shift: float
    weight: float
    here: float = 0.0
    there: float = 0.0


def across(
    layers: Sequence[Sequence[int]],
    widths: Sequence[float],
    gaps: Sequence[Sequence[float]],
    up: Sequence[Sequence[Joint]],
    down: Sequence[Sequence[Joint]],
) -> list[float]:
    """Return the middle of each box.

    Args:
        layers: the boxes of each rank, from left to right.
        widths: how wide each box is.
        gaps: for each rank, the space between each box and the next.
        up: for each box, what it is joined to in the rank above.
        down: the same for the rank below.
    """
    x = [0.0] * len(widths)
    apart = [_apart(layer, widths, gap) for layer, gap in zip(layers, gaps, strict=True)]
    for layer, offsets in zip(layers, apart, strict=True):
        for v, offset in zip(layer, offsets, strict=True):
            x[v] = offset - offsets[-1] / 2
    for sweep in range(SWEEPS):
        upwards = sweep % 2 == 1
        joined = down if upwards else up
        for k in range(len(layers) - 1, -1, -1) if upwards else range(len(layers)):
            layer = layers[k]
            wanted, weights = _wishes(layer, x, joined)
            for v, place in zip(layer, _nearest(wanted, weights, apart[k]), strict=True):
                x[v] = place
    return x


def _apart(layer: Sequence[int], widths: Sequence[float], gaps: Sequence[float]) -> list[float]:
    """Return how far each box of a rank must at least stand from the first one."""
    offsets = [0.0]
    for a, b, gap in zip(layer, layer[1:], gaps, strict=False):
        offsets.append(offsets[-1] + (widths[a] + widths[b]) / 2 + gap)
    return offsets[: len(layer)]


def _wishes(
    layer: Sequence[int], x: Sequence[float], joined: Sequence[Sequence[Joint]]
) -> tuple[list[float], list[float]]:
    """Return where each box of a rank would like to stand, and how much."""
    wanted, weights = [], []
    for v in layer:
        weight = sum(joint.weight for joint in joined[v])
        place = sum(joint.weight * (x[joint.box] - joint.shift) for joint in joined[v])
        wanted.append(place / weight if weight else x[v])
        weights.append(weight or 0.1)
    return wanted, weights


def _nearest(wanted: Sequence[float], weights: Sequence[float], apart: Sequence[float]) -> list[float]:
    """Return the places that are nearest to `wanted`, in least squares, and far enough apart.

    Pool adjacent violators: boxes that would overlap move as one block.
    """
    blocks: list[tuple[float, float, int]] = []
    for place, weight, offset in zip(wanted, weights, apart, strict=True):
        pull, mass, count = (place - offset) * weight, weight, 1
        while blocks and blocks[-1][0] / blocks[-1][1] >= pull / mass:
            more_pull, more_mass, more = blocks.pop()
            pull, mass, count = pull + more_pull, mass + more_mass, count + more
        blocks.append((pull, mass, count))
    places = [pull / mass for pull, mass, count in blocks for _ in range(count)]
    return [place + offset for place, offset in zip(places, apart, strict=True)]


def straightened(
    columns: Sequence[Sequence[tuple[int, float]]],
    layers: Sequence[Sequence[int]],
    widths: Sequence[float],
    gaps: Sequence[Sequence[float]],
    x: Sequence[float],
) -> list[float]:
    """Return `x` with the boxes of each column moved so that its wires run straight, where neighbours leave room.

    Args:
        columns: boxes in consecutive ranks, each joined to the next by one wire; with each how far its middle stands
            from that of the first when these wires are straight. Which comes first has the choice.
        layers, widths, gaps: as in `across`.
        x: the middle of each box.
    """
    out = list(x)
    left: dict[int, tuple[int, float]] = {}
    right: dict[int, tuple[int, float]] = {}
    for layer, gap in zip(layers, gaps, strict=True):
        for a, b, space in zip(layer, layer[1:], gap, strict=False):
            right[a] = b, (widths[a] + widths[b]) / 2 + space
            left[b] = a, (widths[a] + widths[b]) / 2 + space
    for column in columns:
        run: list[tuple[int, float]] = []
        low, high = -math.inf, math.inf
        for v, shift in column:
            lowest = out[left[v][0]] + left[v][1] - shift if v in left else -math.inf
            highest = out[right[v][0]] - right[v][1] - shift if v in right else math.inf
            if max(low, lowest) > min(high, highest):
                _align(out, run, low, high)
                run, low, high = [], -math.inf, math.inf
            run.append((v, shift))
            low, high = max(low, lowest), min(high, highest)
        _align(out, run, low, high)
    return out


def _align(x: list[float], run: Sequence[tuple[int, float]], low: float, high: float) -> None:
    if run:
        middle = sorted(x[v] - shift for v, shift in run)[len(run) // 2]
        place = min(max(middle, low), high)
        for v, shift in run:
            x[v] = place + shift
