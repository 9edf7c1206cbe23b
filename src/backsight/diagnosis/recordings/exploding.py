"""BS303: gradients, or the signal, explode on their way through the layers."""

from __future__ import annotations

from collections.abc import Iterator

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.recordings.depth import FALL, depths
from backsight.diagnosis.recordings.recording import Recording
from backsight.diagnosis.recordings.registry import rule


@rule("BS303")
def exploding(recording: Recording) -> Iterator[Finding]:
    """They become larger from layer to layer, steadily, and all in all by ten thousand times or more."""
    found = next((depth for depth in depths(recording) if depth.powers >= FALL), None)
    if found is not None:
        back = ("What goes back through these layers is multiplied like that as well.",)
        yield Finding(
            "BS303",
            "warning",
            found.title("explode"),
            (found.shown(), *(back if found.what == "Activations" else ())),
            "Start with smaller weights (torch.nn.init.kaiming_normal_ for ReLU, xavier_normal_ for tanh), add "
            "normalization layers, or scale the residual branches. Clipping gradients does not fix it.",
        )
