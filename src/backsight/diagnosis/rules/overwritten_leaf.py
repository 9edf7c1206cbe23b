"""BS107: the variable that held a leaf now holds something computed from it."""

from __future__ import annotations

from collections.abc import Iterator

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.scene import Scene
from backsight.diagnosis.wording import shown, warning
from backsight.findings.evidence import Evidence
from backsight.source import rebinding


@rule("BS107")
def overwritten_leaf(scene: Scene) -> Iterator[Finding]:
    """A leaf has lost its name to one of its own results."""
    for leaf in scene.graph.leaves:
        if leaf.kind == "overwritten":
            fate = f"{leaf.owner} still updates it" if leaf.owner else "no optimizer updates it"
            name = leaf.name.removesuffix(" (overwritten)")
            at = rebinding(*scene.site, name)
            near = Evidence(f"It is an {leaf.near}: the name now refers to the result.", certainty="read")
            if at is not None and f"`{at.text}`, {at}" in leaf.near:
                near = shown(at, f"rebinds {name}, the leaf, to a result computed from it.", "read")
            else:
                at = None
            yield warning(
                "BS107",
                f"{leaf.name} is a leaf that no variable holds anymore.",
                (near, f"Its gradient can no longer be read, and {fate}."),
                "Give the result another name, keep the leaf's name, and recompute the result in each step.",
                at,
                exact=False,
                nodes=(leaf.node,),
            )
