"""BS154: a recurrent state is detached in each iteration, and the loss trains the last iteration alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from backsight.diagnosis.evidence.cuts import ends
from backsight.diagnosis.evidence.each_turn import Detached, detached
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.scene import Scene
from backsight.diagnosis.wording import counted, listed, shown, warning
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
        period = _period(scene, parts, latest)
        if not period or cut.line is None or any(parts[0][1] < mark <= latest for mark in marks):
            continue
        found = detached(cut.line.place)
        if found is None or _is_running(found):
            continue
        # What is detached once it is computed, is so after the last iteration as well: the one before that ends it.
        last = latest - period if found.order == "after" else latest
        # Of the iteration before, what was computed until its cut is as old as what this one began with.
        before = last - period
        if last in numbers and before not in numbers and not any(parts[0][1] <= each < before for each in numbers):
            yield _finding(found, cut, cut.line.place, (latest - parts[0][1]) // period + (found.order != "after"))
            return


def _period(scene: Scene, parts: Sequence[Part], latest: int) -> int:
    """Return how many nodes there are between two cuts of this step; 0 where it is not the same number each time.

    Each part reaches the same parameters, which this loss trains.
    """
    if any(number < scene.began for _, number in parts):
        return 0
    begun = sorted({number for _, number in parts})
    turns, rest = divmod(latest - begun[0], begun[1] - begun[0]) if len(begun) > 1 else (0, 1)
    trained = scene.reached()
    behind = [
        {id(leaf) for refs, number in parts if number == each for ref in refs if (leaf := ref()) is not None}
        for each in begun[1:]
    ]
    alike = bool(behind) and bool(behind[0]) and all(each == behind[0] for each in behind) and behind[0] <= trained
    return begun[1] - begun[0] if alike and turns > 1 and not rest else 0


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
    one = len(found.names) == 1
    evidence: list[Fact] = [shown(found.place, f"detaches {'it' if one else 'them'} in each iteration.")]
    if place.line != found.place.line:
        evidence.append(shown(place, ends(cut)))
    evidence.append(
        f"The graph of the loss holds the last iteration alone; no gradient reaches the {counted(lost, 'iteration')} "
        "before it."
    )
    return warning(
        "BS154",
        f"{names} {'is' if one else 'are'} detached in each iteration: the loss trains only the last one.",
        evidence,
        _fix(found),
        found.place,
    )


def _fix(found: Detached) -> str:
    attached = found.place.text.replace(".detach()", "").replace(".data", "")
    change = f"Write {attached}" if found.order == "within" else "Remove this line"
    return (
        f"{change}, so that the graph reaches back to the first iteration. If {listed(found.names, 3)} may come from "
        f"an earlier training step, detach once, before line {found.loop.line}."
    )
