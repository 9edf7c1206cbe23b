"""BS302: gradients, or the signal, vanish on their way through the layers."""

from __future__ import annotations

from collections.abc import Iterator

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.recordings.architecture import Architecture
from backsight.diagnosis.recordings.depth import FALL, depths
from backsight.diagnosis.recordings.recording import Recording
from backsight.diagnosis.recordings.registry import rule
from backsight.diagnosis.wording import listed, warning


@rule("BS302")
def vanishing(recording: Recording) -> Iterator[Finding]:
    """They become smaller from layer to layer, steadily, and all in all by ten thousand times or more."""
    found = next((depth for depth in depths(recording) if depth.powers <= -FALL), None)
    if found is not None:
        lost = "last layers hardly see the data" if found.what == "Activations" else "first layers hardly learn"
        yield warning(
            "BS302",
            found.title("vanish"),
            (found.shown(), f"The {lost}."),
            _fix(Architecture.of(recording, found.layers)),
        )


def _fix(model: Architecture) -> str:
    """Return what this model lacks, and nothing that it has."""
    found = []
    if model.saturating:
        found.append(f"use ReLU or GELU instead of {listed(model.saturating, 3)}")
    if model.normalizes_after:
        found.append(
            "normalize the input of each block instead of its output"
            + (" (norm_first=True)" if model.has_norm_first else "")
            + ", or warm up the learning rate"
        )
    if not model.normalizations:
        found.append(
            "initialize weights for the activation (torch.nn.init.kaiming_normal_) and add normalization layers"
        )
    if not model.residual:
        found.append("add residual connections")
    if not found:
        found.append("initialize the last layer of each block smaller, or warm up the learning rate")
    text = "; or ".join(found)
    return f"{text[0].upper()}{text[1:]}."
