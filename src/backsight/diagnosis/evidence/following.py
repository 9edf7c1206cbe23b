"""Models that learn by copies: a target, or the policy of the last rollout, into which a trained one is written."""

from __future__ import annotations

from collections.abc import Iterator

from backsight.diagnosis.scene import Scene
from backsight.source.averaging import Writes, writes
from backsight.source.body import LOOPS, statements
from backsight.tape import Leaf


def following(scene: Scene, leaf: Leaf) -> Writes | None:
    """Return the statement that writes a trained model into that of a leaf, again and again.

    The one that is written has to be in the same graph, with a parameter of the same name and shape that an optimizer
    holds. One that runs before the training only, as for a student that begins as its teacher, is none.
    """
    parts = leaf.name.split(".")
    for each in _written(scene):
        target, origin = (name.rpartition(".")[2] for name in (each.target, each.origin))
        if target == origin or target not in parts[:-1]:
            continue
        rest = parts[parts.index(target) + 1 :]
        own = (other for other in scene.graph.leaves if other.owner and other.shape == leaf.shape)
        if any((names := other.name.split("."))[-len(rest) :] == rest and origin in names for other in own):
            return each
    return None


def _written(scene: Scene) -> Iterator[Writes]:
    for each in writes(scene.site[0]):
        if each.origin and each.how in ("loads", "blends") and _runs_again(each):
            yield each


def _runs_again(each: Writes) -> bool:
    """Whether a statement stands in a function that is no constructor's, or in a loop."""
    node = each.body.node
    if getattr(node, "name", "__init__") != "__init__":
        return True
    return any(
        isinstance(s, LOOPS) and s.lineno < each.begins <= (s.end_lineno or 0) for s in statements(each.body.node)
    )
