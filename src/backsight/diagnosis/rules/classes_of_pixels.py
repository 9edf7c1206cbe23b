"""BS147: scores of classes for each pixel are cut into rows without moving the classes last."""

from __future__ import annotations

import math
from collections.abc import Iterator

from backsight.diagnosis.evidence.holders import given
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.scene import Scene
from backsight.diagnosis.wording import if_known, shaped, warning
from backsight.tape import Node

_VIEWS = frozenset({"View", "UnsafeView", "ReshapeAlias"})
_CHANNELS_SECOND = ("Convolution", "Upsample")
"""Operations whose result has its channels second, by what their names begin with."""


def classes_of_pixels(scene: Scene) -> Iterator[Finding]:
    """A log-softmax over rows into which a view has cut what a convolution returns, N×C×H×W: each row is a run of C
    neighboring pixels of one channel, and not the C channels of one pixel."""
    for node in scene.graph.nodes:
        view = next(iter(given(node)), None) if node.op == "LogSoftmax" else None
        made = next(iter(given(view)), None) if view is not None and view.op in _VIEWS else None
        if view is None or made is None or not made.op.startswith(_CHANNELS_SECOND) or not made.shape:
            continue
        pixels = math.prod(made.shape[2:])
        if len(made.shape) > 2 and pixels > 1 and view.shape == (made.shape[0] * pixels, made.shape[1]):
            yield _finding(scene, made, view)


def _finding(scene: Scene, made: Node, view: Node) -> Finding:
    before, after = made.shape or (), view.shape or ()
    line = scene.line_of(view)
    last = ", ".join(map(str, (0, *range(2, len(before)), 1)))
    does = "moves no entry: a row holds pixels of a class, not classes of a pixel."
    return warning(
        "BS147",
        f"The scores of {after[1]} classes are mixed with pixels: a view cuts {shaped(before)} into {shaped(after)}.",
        (if_known(line, does), "The loss compares these rows with the classes of the pixels."),
        f"Move the classes last before the view: .permute({last}).reshape(-1, {after[1]}). Or pass cross_entropy the "
        f"scores themselves, {shaped(before)}, with targets of {shaped((before[0], *before[2:]))}.",
        line,
        nodes=(view.index,),
    )
