"""BS104: a saved tensor was modified in place, so backward will raise."""

from __future__ import annotations

from collections.abc import Iterator

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.scene import Scene
from backsight.diagnosis.wording import counted, shaped
from backsight.tape import Node, Saved
from backsight.tape.modules import module_of


@rule("BS104")
def modified_saved(scene: Scene) -> Iterator[Finding]:
    """One finding for each changed tensor, naming the first node that saved it."""
    seen: set[int | None] = set()
    for i in sorted(scene.graph.saved, reverse=True):
        for saved in scene.graph.saved[i]:
            if saved.state == "modified" and saved.storage not in seen:
                seen.add(saved.storage)
                yield _finding(scene, scene.graph.nodes[i], saved)


def _finding(scene: Scene, node: Node, saved: Saved) -> Finding:
    shape = shaped(saved.shape)
    what = scene.name_of_saved(saved) or f"A tensor of shape {shape}"
    where = f" in {module}" if (module := module_of(node)) else ""
    times = (saved.version or 0) - (saved.expected or 0)
    return Finding(
        "BS104",
        "error",
        f"{what} was modified in place after {node.name} saved it: backward will raise.",
        (
            f"{node.name}{where} saved it as `{saved.name}` (shape {shape}) at version {saved.expected}; it is now "
            f"at version {saved.version}: {counted(times, 'change')} since.",
        ),
        "Create a new tensor instead (x = x + 1, not x += 1), or modify a copy: x = x.clone() first. If an "
        "optimizer modified it, call step() after the last backward() that needs the old weights.",
        nodes=(node.index,),
    )
