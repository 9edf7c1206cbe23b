"""The autograd graph as a folded picture, and which tensors are in each of its boxes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import cast, get_args

from backsight.drawing import Box, Drawing, Look, Scene, nodes_by_box, svg
from backsight.drawing.look import MOST_BOXES, Direction
from backsight.runs import Run
from backsight.tape import Graph
from backsight.viewer.placing import Nodes, nodes_of, parameter_of
from backsight.viewer.question import Answer, Asked, BadQuestion, question

READABLE = 32
"""Boxes of a picture in which nothing has been opened by hand."""

ROOM, ROOM_OF_SEVERAL = "0.00e-00", "0.00e-00 to 0.00e-00"
"""As wide as any number that a page writes on a box, and as any two on one that stands for several modules."""

UNFOLDED = 64
"""Up to so many boxes, none of them an arbitrary part, repetitions are drawn one by one: a training shows how layers
differ."""


@question("graph")
def graph(run: Run, asked: Asked) -> Answer:
    """If wanted `fold`, 1 or 0; `open`: groups to open, or close where open; `tensor` and `kind`: what is to be seen;
    `direction`: "down" or "right"; `inputs`, 1 for pills of what needs no gradient.

    Boxes are numbered as in the picture. `tensors` says by kind what is in each, `leaves` what a pill stands for.
    """
    stored = run.stored_graph()
    if stored is None:
        return {"svg": None, "why": _why(run)}
    held: Graph = stored.value
    fold, inputs = asked.number("fold", None, 0, 1), bool(asked.number("inputs", 0, 0, 1))
    drawing, scene = _drawing(held, fold=bool(fold), inputs=inputs)
    if fold is None and (_count(scene) > UNFOLDED or any(box.kind == "part" for box in scene.boxes)):
        drawing, scene = _drawing(held, fold=True, inputs=inputs)
    nodes = nodes_of(held, run.tensors)
    wanted = nodes.get((asked.word("tensor", ""), asked.word("kind", "")), [])
    scene = _toggled(scene, _numbers(asked), wanted)
    if _count(scene) > MOST_BOXES:
        raise BadQuestion(f"this would show more than {MOST_BOXES} boxes: close some.")
    boxes = _boxes_by_node(scene)
    scene = _with_room(
        scene, {index for several in nodes.values() for node in several for index in boxes.get(node, ())}
    )
    return {
        "step": stored.step,
        "fold": drawing.look.fold,
        "svg": svg(scene, drawing.tell, theme=None, direction=_direction(asked)),
        "groups": [box.index for box in scene.boxes if box.is_group],
        "links": scene.shown_links,
        "tensors": _tensors(nodes, boxes),
        "leaves": _leaves(held, nodes),
        "code": held.code,
        "here": sorted({index for node in wanted for index in boxes.get(node, ())}),
    }


@lru_cache(maxsize=8)
def _drawing(held: Graph, *, fold: bool, inputs: bool) -> tuple[Drawing, Scene]:
    """Return the picture, open as deep as is readable: layers that are alike are to be as open as each other.

    One closed box alone says nothing of a training, so that it is opened whatever is in it.
    """
    drawing = Drawing(held, Look(heat=None, depth=0, fold=fold, inputs=inputs))
    scene, depths = drawing.scene, list[int]()
    for box in scene.boxes:
        depths.append(0 if box.parent is None else depths[box.parent] + 1)
    for depth in range(1, max(depths, default=0) + 1):
        pairs = zip(drawing.scene.boxes, depths, strict=True)
        deeper = replace(scene, boxes=tuple(replace(box, opened=box.is_group and at < depth) for box, at in pairs))
        if _count(deeper) > READABLE and _count(scene) > 1:
            break
        scene = deeper
    return drawing, scene


def _direction(asked: Asked) -> Direction:
    wanted = asked.word("direction", "auto")
    if wanted not in get_args(Direction):
        raise BadQuestion(f"direction must be down, right or auto, not {wanted}.")
    return cast(Direction, wanted)


def _count(scene: Scene) -> int:
    return sum(1 for _ in scene.shown)


def _why(run: Run) -> str:
    """Return why a run holds no graph, as its recording said."""
    said = (event.details.get("why") for event in run.events if event.event == "graph left out")
    return next((why for why in said if isinstance(why, str)), "")


def _numbers(asked: Asked) -> set[int]:
    try:
        return {int(word) for word in asked.words("open")}
    except ValueError:
        raise BadQuestion("open must be comma-separated numbers.") from None


def _toggled(scene: Scene, toggled: set[int], wanted: Iterable[int]) -> Scene:
    """Return the scene with these groups opened or closed, and those opened in which the wanted nodes are."""
    opened = {box.index for box in scene.boxes if box.is_group and box.opened != (box.index in toggled)}
    everywhere = _boxes_by_node(replace(scene, boxes=tuple(replace(box, opened=True) for box in scene.boxes)))
    for index in (index for node in wanted for index in everywhere.get(node, ())):
        around = scene.boxes[index].parent
        while around is not None:
            opened.add(around)
            around = scene.boxes[around].parent
    return replace(scene, boxes=tuple(replace(box, opened=box.index in opened) for box in scene.boxes))


def _with_room(scene: Scene, holding: set[int]) -> Scene:
    """Return the scene with room for a number on the boxes that hold tensors, which the page writes there."""

    def room(box: Box) -> Box:
        return replace(box, amount=ROOM_OF_SEVERAL if box.is_group or box.copies > 1 else ROOM)

    return replace(scene, boxes=tuple(room(box) if box.index in holding else box for box in scene.boxes))


def _boxes_by_node(scene: Scene) -> dict[int, list[int]]:
    """Return the boxes that are shown for each node; a leaf is in that of each operation that consumes it."""
    found: dict[int, list[int]] = {}
    for index, nodes in nodes_by_box(scene).items():
        chips = (node for chip in scene.boxes[index].chips for node in chip.nodes)
        for node in dict.fromkeys((*nodes, *chips)):
            found.setdefault(node, []).append(index)
    return found


def _tensors(nodes: Nodes, boxes: dict[int, list[int]]) -> dict[str, dict[str, list[str]]]:
    """Return by kind and box the names of the tensors in it."""
    found: dict[str, dict[str, list[str]]] = {}
    for (name, kind), several in nodes.items():
        for index in dict.fromkeys(index for node in several for index in boxes.get(node, ())):
            found.setdefault(kind, {}).setdefault(str(index), []).append(name)
    return found


def _leaves(held: Graph, nodes: Nodes) -> dict[str, Answer]:
    """Return what each leaf is called, and what was recorded of it by kind, by the number of its node."""
    found: dict[str, Answer] = {str(leaf.node): {"name": leaf.label, "kinds": {}} for leaf in held.leaves}
    for (name, kind), several in nodes.items():
        if parameter_of(name, kind) is not None:
            for node in several:
                found[str(node)]["kinds"].setdefault(kind, name)
    return found
