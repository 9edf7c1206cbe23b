"""BS121: a term of the loss that trains nothing."""

from __future__ import annotations

from collections.abc import Iterator

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.scene import Scene
from backsight.diagnosis.vital import ends, undoing, where
from backsight.diagnosis.wording import shown


@rule("BS121")
def dead_term(scene: Scene) -> Iterator[Finding]:
    """Under an exact watch: a number is added that comes of what requires a gradient, and has none itself."""
    reached = scene.reached()
    begin = min((n.sequence for n in scene.graph.nodes if n.sequence is not None and n.kind != "leaf"), default=0)
    for index, met in scene.met().items():
        if met.term < 0 or not met.cuts:
            continue
        cut, leaves, made = met.cuts[0]
        said = cut.by in ("detach", "data") and cut.line is not None and cut.line.place == met.line.place
        if made <= begin or said:  # it is of a step before, or meant: who adds `term.detach()` knows
            continue
        if cut.line is None or not any((leaf := ref()) is not None and id(leaf) in reached for ref in leaves):
            continue
        term = met.operands[met.term]
        yield Finding(
            "BS121",
            "warning",
            f"{f'`{term}`' if term else 'A term of the loss'} is added to the loss, and trains nothing.",
            (
                shown(where(cut) or cut.line.place, ends(cut)),
                shown(met.line.place, "adds the number that is left."),
            ),
            f"{undoing(cut)}; if it is only to be shown, leave it out of the loss.",
            source=str(where(cut) or cut.line.place),
            nodes=(index,),
        )
