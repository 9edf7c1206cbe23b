"""BS101: a leaf collects gradients that no optimizer will ever use."""

from __future__ import annotations

from collections.abc import Iterator

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.scene import Scene


@rule("BS101")
def leaf_without_optimizer(scene: Scene) -> Iterator[Finding]:
    """A leaf of the loss requires grad, optimizers were found, and none of them holds it."""
    if not any(leaf.owner for leaf in scene.graph.leaves):
        return  # nothing in this graph is optimised by anything we found: say nothing rather than everything
    for leaf in scene.graph.leaves:
        if leaf.owner or leaf.kind == "overwritten":
            continue
        optimizers = " and ".join(scene.optimizers)
        yield Finding(
            "BS101",
            "warning",
            f"{leaf.label} requires a gradient, but no optimizer will update it.",
            (
                f"It is a leaf of this loss (shape {'×'.join(map(str, leaf.shape)) or '()'}), reached by "
                f"{leaf.uses} edge{'s' * (leaf.uses != 1)}, and not among the parameters of {optimizers}.",
            ),
            f"Add it to {next(iter(scene.optimizers))} if it is to be learnt, or make it with requires_grad=False. "
            "Where only its gradient is wanted (a gradient penalty, an adversarial input), all is well.",
        )
