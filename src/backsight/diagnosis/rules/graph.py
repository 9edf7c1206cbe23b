"""BS104, BS105, BS110: a graph that backward cannot go through, or that contains the last step's."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.live.culprit import carrying, does, fix
from backsight.diagnosis.scene import Scene, growth_since, operations, rule
from backsight.diagnosis.wording import counted, shaped, shown, warning
from backsight.source.keeping import Keeping
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


_OLD = 16
"""Steps of optimizers that no iteration takes, however many optimizers it has."""

_FIX = (
    "Detach what is carried over: hidden = hidden.detach() for a state, total += loss.item() for a sum that you only "
    "print."
)


@rule("BS110")
def graph_grows(scene: Scene) -> Iterator[Finding]:
    """Three audits at one place, with a backward between each, found ever more carried over from the one before.

    Without a backward between them it is one loss that is being summed up. Or one audit finds operations that are older
    than many optimizer steps, more than any loop makes within one iteration.
    """
    size = len(operations(scene.graph))
    if aged := _aged(scene):
        yield _of_growth(scene, f"{aged} of its {size} operations were made more than {_OLD} optimizer steps ago.")
        return
    past = scene.past
    if past is None or len(past.growth) < 2 or np.array_equal(operations(scene.graph), past.operations):
        return
    first, second = past.growth
    third = growth_since(past, scene.graph)
    grows = first.size < second.size < third.size and 0 < second.carried < third.carried
    if grows and second.trained and third.trained:
        yield _of_growth(
            scene,
            f"{first.size}, {second.size}, {third.size} operations in the last three audits at this line; "
            f"{third.carried} of the {third.size} were already in the graph of the previous step.",
        )


def _of_growth(scene: Scene, known: str) -> Finding:
    where = _carried_by(scene)
    return warning(
        "BS110",
        "The graph grows from step to step: this loss is still attached to the graph of every earlier step.",
        (known, *(shown(keeping.place, does(keeping)) for keeping in where)),
        fix(where, scene.graph.roots[0].shape or ()) if where else _FIX,
        where[0].place if where else None,
    )


def _aged(scene: Scene) -> int:
    """Return how many operations of the graph are older than the last `_OLD` steps of this thread.

    They have to be of several steps: what was computed once, and is used ever since, is no growth.
    """
    past = scene.steps.past.get(threading.get_ident(), ()) if scene.steps is not None else ()
    if len(past) < _OLD:
        return 0
    made = np.array([n.sequence for n in scene.graph.nodes if n.kind != "leaf" and n.sequence is not None])
    of_steps = {*np.searchsorted(np.array(past), made, side="right").tolist()}
    return int((made < past[-_OLD]).sum()) if len(of_steps) > _OLD // 2 else 0


def _carried_by(scene: Scene) -> list[Keeping]:
    """Return the statement that carries the graph over, if there is one and only one that may."""
    numbers = [node.sequence for node in scene.graph.nodes if node.sequence is not None]
    found = carrying(min(numbers), max(numbers), *scene.site) if numbers else []
    return found if len(found) == 1 else []
