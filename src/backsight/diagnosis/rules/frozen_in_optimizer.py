"""BS109: an optimizer holds parameters that do not train."""

from __future__ import annotations

from collections.abc import Iterator

from backsight.diagnosis.evidence.creation import built_at
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.scene import Scene
from backsight.source.freezing import unfreezings_after
from backsight.tracing.steps import parameters


@rule("BS109")
def frozen_in_optimizer(scene: Scene) -> Iterator[Finding]:
    """Parameters with requires_grad=False in an optimizer: usual in fine-tuning, so only a note.

    It is none where the program unfreezes later: an optimizer of all parameters is then the right one.
    """
    for name, optimizer in scene.involved().items():
        held = parameters(optimizer)
        frozen = [p for p in held if not p.requires_grad]
        moving = [p for p in frozen if p.grad is not None]
        if moving or (frozen and not _unfreezes(scene, name)):
            fate = "The optimizer skips parameters without a gradient."
            if moving:
                fate = (
                    f"{scene.listed(moving)} still {'has' if len(moving) == 1 else 'have'} an old gradient: step() "
                    "applies it, with momentum and weight decay, until it is None."
                )
            yield Finding(
                "BS109",
                "note",
                f"{len(frozen)} of the {len(held)} parameters in {name} {'is' if len(frozen) == 1 else 'are'} frozen.",
                (f"requires_grad is False for {scene.listed(frozen)}. {fate}",),
                "If you froze them on purpose, there is nothing to do. Otherwise, unfreeze them with "
                "requires_grad_(True) before the forward pass.",
            )


def _unfreezes(scene: Scene, optimizer: str) -> bool:
    """Whether a statement further down than that which builds an optimizer unfreezes something."""
    built = built_at(scene, optimizer)
    return built is not None and bool(unfreezings_after(built))
