"""BS107: the variable that held a leaf now holds something computed from it."""

from __future__ import annotations

from collections.abc import Iterator

from backsight.diagnosis.evidence.creation import built_at
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.scene import Scene, rule
from backsight.diagnosis.wording import shown, warning
from backsight.findings.evidence import Evidence
from backsight.source import Place, assignments, rebinding
from backsight.source.body import body_around
from backsight.tape import Leaf


@rule("BS107")
def overwritten_leaf(scene: Scene) -> Iterator[Finding]:
    """A leaf has lost its name to one of its own results."""
    for leaf in scene.graph.leaves:
        if leaf.kind == "overwritten":
            fate = f"{leaf.owner} still updates it" if leaf.owner else "no optimizer updates it"
            name = leaf.name.removesuffix(" (overwritten)")
            at = rebinding(*scene.site, name)
            near = Evidence(f"It is an {leaf.near}: the name now refers to the result.", certainty="read")
            before: list[Evidence] = []
            if at is not None and f"`{at.text}`, {at}" in leaf.near:
                near = shown(at, f"rebinds {name}, the leaf, to a result computed from it.", "read")
                before = [*_creation(name, at), *_optimizer(scene, leaf)]
            else:
                at = None
            yield warning(
                "BS107",
                f"{leaf.name} is a leaf that no variable holds anymore.",
                (*before, near, f"Its gradient can no longer be read, and {fate}."),
                "Give the result another name, keep the leaf's name, and recompute the result in each step.",
                at,
                exact=False,
                nodes=(leaf.node,),
            )


def _creation(name: str, overwritten: Place) -> Iterator[Evidence]:
    """The one statement that gave the variable its leaf, before another overwrote it."""
    places = assignments(body_around(overwritten.file, overwritten.line), name, before=overwritten.line)
    if len(places) == 1:
        yield shown(places[0], f"creates {name}, the leaf.", "read")


def _optimizer(scene: Scene, leaf: Leaf) -> Iterator[Evidence]:
    """The statement that makes the optimizer of the leaf, or the only one, which might have got it."""
    only = next(iter(scene.optimizers)) if len(scene.optimizers) == 1 else ""
    built = built_at(scene, leaf.owner or only) if leaf.owner or only else None
    if built is not None:
        yield shown(built, f"passes it to {leaf.owner}." if leaf.owner else "leaves it out.")
