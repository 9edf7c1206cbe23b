"""BS108: what backward will multiply by is NaN or infinite."""

from __future__ import annotations

from collections.abc import Iterator

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.scene import Scene


@rule("BS108")
def non_finite(scene: Scene) -> Iterator[Finding]:
    """A tensor that the loss computed and saved holds NaN or infinity. The first in forward order is the origin."""
    bad = [
        (i, saved)
        for i in sorted(scene.graph.saved, reverse=True)
        for saved in scene.graph.saved[i]
        # A constant mask of -inf is normal; what was computed from parameters must be finite.
        if saved.finite is False and saved.requires_grad
    ]
    if bad:
        i, saved = bad[0]
        node = scene.graph.nodes[i]
        where = f" in {node.module}" if node.module else ""
        shape = "×".join(map(str, saved.shape or ())) or "()"
        what = scene.saved_names.get(id(saved.tensor()), f"a tensor of shape {shape}")
        yield Finding(
            "BS108",
            "warning",
            f"{what}, saved for backward, holds NaN or infinity.",
            (
                f"{node.name}{where} saved it as `{saved.name}`: the first of {len(bad)} such tensors in forward "
                "order, so it was born there or just before.",
            ),
            "Look at the operation before it: a division by 0, log(0), sqrt at 0, an overflow in half precision, or "
            "non-finite input data.",
        )
