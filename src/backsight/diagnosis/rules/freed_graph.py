"""BS105: part of the graph was already freed, so backward will raise."""

from __future__ import annotations

from collections.abc import Iterator

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.scene import Scene
from backsight.diagnosis.wording import shaped
from backsight.tape import Node
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
