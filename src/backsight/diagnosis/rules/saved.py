"""BS104, BS105: a saved tensor was modified in place, or part of the graph was freed, so backward will raise."""

from __future__ import annotations

from collections.abc import Iterator

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.scene import Scene, rule
from backsight.diagnosis.wording import counted, shaped
from backsight.tape import Node, Saved
from backsight.tape.modules import module_of


@rule("BS105")
def freed_graph(scene: Scene) -> Iterator[Finding]:
    """Nodes of this loss have lost what they saved: an earlier backward went through them."""
    if scene.moment != "before backward":
        return
    graph = scene.graph
    freed = {i for i, saved in graph.saved.items() if any(s.state == "freed" for s in saved)}
    # A custom Function that saves nothing reads as freed after a backward, though a second one works.
    if all(graph.nodes[i].kind == "custom" for i in freed):
        return
    first = graph.nodes[min(freed)]
    alive = len(graph.saved) - len(freed)
    border = "The whole graph" if not alive else f"{len(freed)} of the {len(graph.saved)} nodes that save tensors"
    yield Finding(
        "BS105",
        "error",
        "backward() would go through this graph a second time and raise.",
        (
            f"{border} lost saved tensors in an earlier backward(); the first one that backward reaches is "
            f"{_describe(first)}.",
        ),
        "Recompute the loss for each backward(). Detach what is carried from step to step: hidden = "
        "hidden.detach(). Two losses over one forward pass: (loss_a + loss_b).backward().",
        nodes=(first.index,),
    )


def _describe(node: Node) -> str:
    module = module_of(node)
    return f"{node.name} ({shaped(node.shape)}{f', in {module}' if module else ''})"


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
