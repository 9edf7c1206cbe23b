"""BS303: gradients, or the signal, explode on their way through the layers."""

from __future__ import annotations

from collections.abc import Iterator

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.recordings.architecture import Architecture
from backsight.diagnosis.recordings.depth import FALL, depths
from backsight.diagnosis.recordings.recording import Recording
from backsight.diagnosis.recordings.registry import rule


@rule("BS303")
def exploding(recording: Recording) -> Iterator[Finding]:
    """They become larger from layer to layer, steadily, and all in all by ten thousand times or more."""
    found = next((depth for depth in depths(recording) if depth.powers >= FALL), None)
    if found is not None:
        back = ("Gradients that pass through these layers are multiplied the same way.",)
        yield Finding(
            "BS303",
            "warning",
            found.title("explode"),
            (found.shown(), *(back if found.what == "Activations" else ())),
            _fix(Architecture.of(recording, found.layers)),
        )


def _fix(model: Architecture) -> str:
    """Return what this model lacks, and nothing that it has."""
    found = ["Start with smaller weights (torch.nn.init.kaiming_normal_ for ReLU, xavier_normal_ for tanh)"]
    if not model.normalizations:
        found.append("add normalization layers")
    if model.residual is not False:
        found.append("scale the residual branches")
    text = ", ".join(found[:-1]) + (f"{',' * (len(found) > 2)} or {found[-1]}" if len(found) > 1 else found[-1])
    return f"{text}. Clipping gradients does not fix it."
