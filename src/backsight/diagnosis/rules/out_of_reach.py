"""BS130: targets lie where the last operation of the model never comes."""

from __future__ import annotations

from collections.abc import Iterator

from backsight.diagnosis.amending import bypassed
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.scene import Scene
from backsight.diagnosis.wording import shown, warning
from backsight.findings.evidence import Fact
from backsight.source import Place
from backsight.source.edits import OR
from backsight.tape import Node
from backsight.tracing import Met, Reach

_LOSSES = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"})
_DISTANCES = frozenset({"Pow", "Abs", "Mul", "Square"})


@rule("BS130")
def out_of_reach(scene: Scene) -> Iterator[Finding]:
    """Under an exact watch: a prediction comes of an activation with bounds, and part of its targets lie outside."""
    for index, met in scene.met().items():
        if met.reach is not None and (met.op in _LOSSES or _is_distance(scene, scene.graph.nodes[index])):
            yield _finding(scene, met, met.reach, index)


def _is_distance(scene: Scene, difference: Node) -> bool:
    """Whether all that is made of a difference is its square, or its absolute value."""
    users = [node for node in scene.graph.nodes if any(e and e.node.index == difference.index for e in node.inputs)]
    return bool(users) and all(each.op in _DISTANCES for each in users)


def _finding(scene: Scene, met: Met, reach: Reach, index: int) -> Finding:
    prediction, target = (f"`{each}`" if each else "" for each in met.operands)
    sides = []
    if reach.below:
        sides.append(f"{reach.below:.0%} of them lie below {reach.low:g}")
    if reach.above:
        sides.append(f"{reach.above:.0%} {'lie' if sides else 'of them lie'} above {reach.high:g}")
    made = next((each for each in scene.graph.nodes if each.sequence == reach.number), None)
    line = scene.line_of(made) if made is not None else None
    bounds = "nothing below 0" if reach.high == float("inf") else f"nothing outside of {reach.low:g} to {reach.high:g}"
    return warning(
        "BS130",
        f"The targets{f' {target}' if target else ''} lie outside the range of {prediction or 'the prediction'}.",
        (
            f"{' and '.join(sides)}.",
            *_evidence(met.line.place, line.place if line is not None else None, f"{reach.op} returns {bounds}"),
        ),
        f"Remove the last {reach.op}, so the model can return any number{bypassed(line, reach.op)}. {OR}Or scale "
        "the targets to its range.",
        line.place if line is not None else met.line.place,
        nodes=(index,),
    )


def _evidence(compared: Place, made: Place | None, returns: str) -> tuple[Fact, ...]:
    if made is None or made == compared:
        return (shown(compared, f"compares the two; {returns}."),)
    return shown(made, f"computes it: {returns}."), shown(compared, "compares the two.")
