"""A function that waits inside a block without gradients: what else runs meanwhile has none either."""

from __future__ import annotations

from backsight.diagnosis.errors.no_grad.causes import fails
from backsight.diagnosis.errors.no_grad.scene import Scene
from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import if_known, shown, sure_if
from backsight.source import Place
from backsight.story.cut_fixes import silenced
from backsight.story.waiting import Waiting, waiting_generators, waiting_tasks


def left_by_generator(scene: Scene) -> Finding | None:
    """The loop around the failing line runs a generator that yields inside a block without gradients."""
    found = next(waiting_generators(scene.failure), None) if _may_be(scene) else None
    why = "as a decorator of a generator, it disables gradients only while the generator itself runs"
    return _finding(scene, found, "yields", why, found.meanwhile) if found is not None else None


def left_by_task(scene: Scene) -> Finding | None:
    """Another coroutine of the program leaves gradients disabled while it waits."""
    found = list(waiting_tasks(scene.failure)) if _may_be(scene) else []
    if not found:
        return None
    meanwhile, is_sure = scene.seen[0].cut.place if scene.seen else None, bool(scene.seen) and len(found) == 1
    why = "gradients are disabled for the whole thread, not for one task"
    return _finding(scene, found[0], "awaits", why, meanwhile, is_sure=is_sure)


def _may_be(scene: Scene) -> bool:
    """Whether nothing else has been seen to end the way."""
    return not scene.seen or scene.seen[0].cut.kind == "no_grad"


def _finding(
    scene: Scene, found: Waiting, waits: str, why: str, meanwhile: Place | None, *, is_sure: bool = True
) -> Finding:
    off, certainty = found.off, sure_if(is_sure)
    name = off.body.name
    runs = if_known(meanwhile, "runs meanwhile, without gradients.")
    return explanation(
        scene.title(f"{name}() {waits} inside {off.text}, so gradients are disabled outside it, too"),
        (
            shown(off.place, "disables gradients.", certainty),
            shown(found.at, f"leaves the block open until {name}() goes on.", certainty),
            runs if runs is not None else None,
            *fails(scene),
        ),
        f"{found.instead}: {why}. {silenced(scene.loss)}",
        source=off.place,
        exact=is_sure,
    )
