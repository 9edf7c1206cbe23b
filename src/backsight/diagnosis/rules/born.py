"""BS112: where the NaN or infinity of this loss, or of an earlier gradient, was born, as a watch has seen it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from backsight.diagnosis.births import BIRTH, told
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.scene import Scene
from backsight.tracing import current

_NOW = 0
"""In place of the index of a backward: this loss is not finite, whatever was before it."""


@rule(BIRTH)
def born(scene: Scene) -> Iterator[Finding]:
    """Under `watch(nonfinite=True)` each operation is looked at as it runs."""
    watch = current()
    if watch is None:
        return
    lost = scene.loss_is_finite is False
    found = told(watch.nonfinite, [_NOW] if lost else watch.lost)
    if found is not None:
        # An earlier gradient may have met a mask on its way to the parameters: then no harm was done.
        yield found if lost else replace(found, severity="warning")
