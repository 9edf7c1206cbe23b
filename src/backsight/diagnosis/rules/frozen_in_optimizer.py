"""BS109: an optimizer holds parameters that do not train."""

from __future__ import annotations

from collections.abc import Iterator

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.scene import Scene
from backsight.tracing.steps import parameters


@rule("BS109")
def frozen_in_optimizer(scene: Scene) -> Iterator[Finding]:
    """Parameters with requires_grad=False in an optimizer: usual in fine-tuning, so only a note."""
    for name, optimizer in scene.optimizers.items():
        held = parameters(optimizer)
        frozen = [p for p in held if not p.requires_grad]
        if frozen:
            some = ", ".join(scene.parameter_name(p) for p in frozen[:4]) + (", ..." if len(frozen) > 4 else "")
            yield Finding(
                "BS109",
                "note",
                f"{len(frozen)} of the {len(held)} parameters in {name} are frozen.",
                (f"requires_grad is False for {some}. They have no gradient, so the optimizer passes them over.",),
                "Nothing to do if that is meant; else unfreeze them with requires_grad_(True) before the forward pass.",
            )
