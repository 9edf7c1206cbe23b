"""BS303: gradients explode on their way to the first layers."""

from __future__ import annotations

from collections.abc import Iterator

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.recordings.depth import FALL, depths
from backsight.diagnosis.recordings.recording import Recording
from backsight.diagnosis.recordings.registry import rule


@rule("BS303")
def exploding(recording: Recording) -> Iterator[Finding]:
    """Norms of gradients grow from layer to layer towards the input, steadily and by ten thousand times or more."""
    for depth in depths(recording):
        if depth.powers >= FALL:
            yield Finding(
                "BS303",
                "warning",
                f"Gradients explode through the {len(depth.names)} layers: each has {depth.per_layer:.2g} times the norm "
                "of the next.",
                (f"Norms of gradients, median of {depth.steps} steps: {depth.shown()}.",),
                "Start with smaller weights (torch.nn.init.kaiming_normal_ for ReLU), add normalization layers, or scale "
                "the residual branches. Clipping the norm of all gradients leaves the last layers next to nothing.",
            )
