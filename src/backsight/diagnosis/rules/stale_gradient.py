"""BS103: the last step's gradients are still there, and this backward will add to them."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.history import Past
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.scene import Scene
from backsight.tracing.steps import parameters, version


@rule("BS103")
def stale_gradient(scene: Scene) -> Iterator[Finding]:
    """Gradients that an optimizer step has consumed were not zeroed; deliberate accumulation is not flagged."""
    reached = {id(leaf.tensor()) for leaf in scene.graph.leaves}
    for name, optimizer in scene.optimizers.items():
        held = [p for p in parameters(optimizer) if id(p) in reached and p.grad is not None]
        stale = [p for p in held if _is_stale(scene, optimizer, p) and bool(torch.any(p.grad != 0))]  # type: ignore[arg-type]  # not None: see held
        if stale:
            some = ", ".join(scene.parameter_name(p) for p in stale[:4]) + (", ..." if len(stale) > 4 else "")
            yield Finding(
                "BS103",
                "warning",
                f"{len(stale)} gradients were not zeroed since {name}.step().",
                (
                    f"{some}: the gradient that the last step used is still there, so this backward adds to it, and "
                    "the next step moves along the sum of all steps so far.",
                ),
                f"Call {name}.zero_grad() in each step before backward().",
            )


def _is_stale(scene: Scene, optimizer: torch.optim.Optimizer, parameter: torch.Tensor) -> bool:
    if scene.steps is not None:
        return scene.steps.is_stale(optimizer, parameter, accumulated=scene.moment == "before step")
    return scene.past is not None and _unzeroed_since(scene.past, parameter)


def _unzeroed_since(past: Past, parameter: torch.Tensor) -> bool:
    """Whether between two audits the parameter was stepped and its gradient changed once: by backward, not by zeroing.

    Zeroing in place would count a second change, and `set_to_none` would bring another tensor.
    """
    before, then = past.gradients.get(id(parameter)), past.versions.get(id(parameter))
    grad = parameter.grad
    if before is None or then is None or grad is None or then[0]() is not parameter:
        return False
    return before.grad() is grad and version(grad) == before.version + 1 and version(parameter) > then[1]
