"""BS302: gradients, or the signal, vanish on their way through the layers."""

from __future__ import annotations

from collections.abc import Iterator

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.recordings.depth import FALL, depths
from backsight.diagnosis.recordings.recording import Recording
from backsight.diagnosis.recordings.registry import rule


@rule("BS302")
def vanishing(recording: Recording) -> Iterator[Finding]:
    """They become smaller from layer to layer, steadily, and all in all by ten thousand times or more."""
    found = next((depth for depth in depths(recording) if depth.powers <= -FALL), None)
    if found is not None:
        lost = "last layers hardly see the data" if found.what == "Activations" else "first layers hardly learn"
        yield Finding(
            "BS302",
            "warning",
            found.title("vanish"),
            (found.shown(), f"The {lost}."),
            "Use ReLU or GELU instead of sigmoid or tanh, weights initialized for the activation "
            "(torch.nn.init.kaiming_normal_), normalization layers, or residual connections.",
        )
