"""A forward hook that was to look at an output, and replaces it by what it returns: `return out.detach()`."""

from __future__ import annotations

from backsight.diagnosis.errors.no_grad.causes import fails
from backsight.diagnosis.errors.no_grad.scene import Scene
from backsight.diagnosis.errors.registry import explanation
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import if_known, listed, shown
from backsight.source import calls_of, only
from backsight.source.body import callee
from backsight.story.cut_fixes import silenced
from backsight.story.files import user_files
from backsight.story.hooks import hooks


def by_forward_hook(scene: Scene) -> Finding | None:
    """A forward hook returns its output without its graph, and so replaces the output of its module."""
    trained = {name: each for name, each in scene.sources.modules.items() if scene.trained.carries(each)}
    found = [(each, each.cut) for each in hooks(trained) if each.cut is not None]
    seen = [(each, cut) for each, cut in found if scene.saw(cut.place)]
    if not found or (scene.seen and not seen):
        return None
    hook, cut = (seen or found)[-1]
    registers = f"register_{hook.kind.replace(' ', '_').replace('-', '_')}"
    calls = calls_of(*user_files(scene.failure))
    registered = only(body.place(each) for body, each, call in calls if callee(call)[1] == registers)
    says = f"the {hook.kind} on {listed(hook.modules, 3)} replaces the {hook.replaces} by {cut.expression}"
    evidence = (
        if_known(registered, "registers the hook."),
        shown(hook.place, hook.does, None if seen else "read"),
        *fails(scene),
    )
    return explanation(
        scene.title(says),
        tuple(each for each in evidence if each is not None),
        f"{hook.fix}. {silenced(scene.loss)}",
        source=hook.place,
        exact=bool(seen),
    )
