"""BS302: gradients vanish on their way to the first layers."""

from __future__ import annotations

from collections.abc import Iterator

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.recordings.depth import FALL, depths
from backsight.diagnosis.recordings.recording import Recording
from backsight.diagnosis.recordings.registry import rule


@rule("BS302")
def vanishing(recording: Recording) -> Iterator[Finding]:
    """Norms of gradients fall from layer to layer towards the input, steadily and by ten thousand times or more."""
    for depth in depths(recording):
        if depth.powers <= -FALL:
            yield Finding(
                "BS302",
                "warning",
                f"Gradients vanish through the {len(depth.names)} layers: each has {depth.per_layer:.2g} times the norm "
                "of the next.",
                (
                    f"Norms of gradients, median of {depth.steps} steps: {depth.shown()}.",
                    "The first layers hardly learn what the last ones do.",
                ),
                "Use ReLU or GELU instead of sigmoid or tanh, an initialization for the activation "
                "(torch.nn.init.kaiming_normal_), normalization layers, or residual connections.",
            )
