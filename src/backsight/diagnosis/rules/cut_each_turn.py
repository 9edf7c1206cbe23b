"""BS154: a recurrent state is detached in each iteration, and the loss trains the last iteration alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from backsight.diagnosis.evidence.cuts import ends
from backsight.diagnosis.evidence.each_turn import Detached, detached
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.scene import Scene
from backsight.diagnosis.wording import counted, listed, shown
from backsight.findings.evidence import Fact
from backsight.source import Place
from backsight.tape import running_backward
from backsight.tracing import Part, Severed, current, repeated


@rule("BS154")
def cut_each_turn(scene: Scene) -> Iterator[Finding]:
    """Under an exact watch: the same parameters are cut off again and again, and only what was computed last remains.

    Truncated backpropagation runs a backward, or has a part of the loss, between two cuts.
    """
    watch = current()
    if watch is None or watch.level != "exact" or scene.moment != "during backward":
        return
    numbers = {number for node in scene.graph.nodes if (number := node.sequence) is not None}
    marks = [each.mark for each in watch.backwards if each.thread in each.marks]
    for cut, parts, latest in repeated(watch):
        lost = _lost(scene, parts, latest, numbers)
        if not lost or cut.line is None or any(parts[0][1] < mark <= latest for mark in marks):
            continue
        found = detached(cut.line.place)
        if found is not None and not _is_running(found):
            yield _finding(found, cut, cut.line.place, lost)
            return


def _lost(scene: Scene, parts: Sequence[Part], latest: int, numbers: set[int]) -> int:
    """Return how many iterations are cut off; 0 if another one than the last is part of the graph, or it is not sure.

    Each makes as many nodes, between two cuts, and reaches the same parameters, which this loss trains.
    """
    if any(number < scene.began for _, number in parts):
        return 0
    begun = sorted({number for _, number in parts})
    turns, rest = divmod(latest - begun[0], begun[1] - begun[0]) if len(begun) > 1 else (0, 1)
    period = begun[1] - begun[0] if turns else 0
    trained = scene.reached()
    behind = [
        {id(leaf) for refs, number in parts if number == each for ref in refs if (leaf := ref()) is not None}
        for each in begun[1:]
    ]
    alike = bool(behind) and bool(behind[0]) and all(each == behind[0] for each in behind) and behind[0] <= trained
    if rest or turns < 2 or not alike:
        return 0
    # It is detached either before it is computed, and once more for the last iteration, or after that.
    for last, lost in ((latest, turns + 1), (latest - period, turns)):
        if last in numbers and not any(begun[0] <= number < last for number in numbers):
            return lost
    return 0


def _is_running(found: Detached) -> bool:
    """Whether the backward was called from within the loop."""
    called = running_backward()
    frame = called[1] if called is not None else None
    while frame is not None:
        if frame.f_code.co_filename == found.loop.file and frame.f_lineno in found.lines:
            return True
        frame = frame.f_back
    return called is None


def _finding(found: Detached, cut: Severed, place: Place, lost: int) -> Finding:
    names = listed(found.names, 3)
    evidence: list[Fact] = [shown(found.place, "detaches it in each iteration.")]
    if place.line != found.place.line:
        evidence.append(shown(place, ends(cut)))
    evidence.append(
        f"The graph of the loss holds the last iteration alone; no gradient reaches the {counted(lost, 'iteration')} "
        "before it."
    )
    return Finding(
        "BS154",
        "warning",
        f"{names} {'is' if len(found.names) == 1 else 'are'} detached in each iteration: the loss trains only the last "
        "one.",
        tuple(evidence),
        _fix(found),
        source=str(found.place),
    )


def _fix(found: Detached) -> str:
    attached = found.place.text.replace(".detach()", "").replace(".data", "")
    target, _, value = attached.partition(" = ")
    name = listed(found.names, 3)
    change = "Remove this line" if attached == found.place.text or target == value else f"Write {attached}"
    return (
        f"{change}, so that the graph reaches back to the first iteration. If {name} comes from an earlier training "
        f"step, detach it once, before line {found.loop.line}."
    )
