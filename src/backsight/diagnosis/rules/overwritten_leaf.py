"""BS107: the variable that held a leaf now holds something computed from it."""

from __future__ import annotations

from collections.abc import Iterator

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.scene import Scene


@rule("BS107")
def overwritten_leaf(scene: Scene) -> Iterator[Finding]:
    """A leaf has lost its name to one of its own results."""
    for leaf in scene.graph.leaves:
        if leaf.kind == "overwritten":
            fate = f"{leaf.owner} still updates it, unseen" if leaf.owner else "no optimizer updates it"
            yield Finding(
                "BS107",
                "warning",
                f"{leaf.name} is a leaf that no variable holds any more.",
                (
                    f"It is an {leaf.near}: the name went to the result.",
                    f"Its gradient cannot be read any more, and {fate}.",
                    "(Which variable held it is an inference from the graph and the source.)",
                ),
                "Give the result another name and keep the leaf's, computing the result anew in each step.",
                exact=False,
                nodes=(leaf.node,),
            )
