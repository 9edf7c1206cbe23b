"""BS108, BS112: the loss, or what backward will multiply by, is NaN or infinite; and where that was born."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from backsight.diagnosis.births import BIRTH, told
from backsight.diagnosis.evidence.values import has_only_negative_infinities, is_finite
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.scene import Scene, rule
from backsight.diagnosis.wording import shaped, warning
from backsight.tape import Leaf, Node, Saved
from backsight.tape.modules import module_of
from backsight.tracing import current

_NOW = 0
"""In place of the index of a backward: this loss is not finite, whatever was before it."""


@rule(BIRTH)
def born(scene: Scene) -> Iterator[Finding]:
    """Under `watch(nonfinite=True)` each operation is looked at as it runs."""
    watch = current()
    if watch is None:
        return
    lost = scene.loss_is_finite is False
    found = told(watch.nonfinite, [_NOW] if lost else watch.lost)
    if found is not None:
        # An earlier gradient may have met a mask on its way to the parameters: then no harm was done.
        yield found if lost else replace(found, severity="warning")


_FIX = (
    "Look at the operation before it: a division by 0, log(0), sqrt of a negative number, an overflow in half "
    "precision, or non-finite input data. `backsight run --nonfinite` names the line."
)

_RESULTS = frozenset({"result", "result0", "output"})
"""What a node calls its own result, which it saves without its history. (Further results may be scratch memory.)"""


@rule("BS108")
def non_finite(scene: Scene) -> Iterator[Finding]:
    """A tensor that the loss computed and saved holds NaN or infinity. The first in forward order is the origin.

    Negative infinity alone is usual where scores are masked, and says nothing as long as the loss is finite. What a
    watch has seen being born is told by BS112.
    """
    watch = current()
    if watch is not None and watch.nonfinite:
        return
    bad = [
        (scene.graph.nodes[i], saved)
        for i in sorted(scene.graph.saved, reverse=True)
        for saved in scene.graph.saved[i]
        # A constant mask of -inf is normal; what was computed from parameters must be finite.
        if saved.finite is False and (saved.requires_grad or saved.name in _RESULTS)
    ]
    lost = scene.loss_is_finite is False
    if not lost and all(_is_masked(saved) for _, saved in bad):
        return
    spoilt = [leaf for leaf in scene.graph.leaves if _holds_non_finite(leaf)]
    if spoilt:
        yield _of_leaves(spoilt)
    elif bad:
        yield _of_saved(scene, *bad[0], len(bad))
    else:
        yield warning("BS108", "The loss is NaN or infinite.", (_born_late(scene),), _FIX)


def _born_late(scene: Scene) -> str:
    if scene.moment == "during backward":
        return (
            "The tensors that the model saved are finite, so it arose between the model's output and the loss, or came "
            "in as data. (That part of the graph is already freed; backsight.audit(loss) before backward() sees it.)"
        )
    return "All saved tensors are finite, so it arose in the last operations, or came in as data."


def _is_masked(saved: Saved) -> bool:
    tensor = saved.tensor()
    return tensor is not None and has_only_negative_infinities(tensor)


def _holds_non_finite(leaf: Leaf) -> bool:
    tensor = leaf.tensor()
    return tensor is not None and is_finite(tensor) is False


def _of_leaves(spoilt: list[Leaf]) -> Finding:
    more = f" and {len(spoilt) - 1} more" if len(spoilt) > 1 else ""
    return warning(
        "BS108",
        f"{spoilt[0].label}{more} {'hold' if more else 'holds'} NaN or infinity.",
        (
            f"{'They are leaves' if more else 'It is a leaf'} of this loss: the bad values come from an earlier step "
            "or from the initialization.",
        ),
        "Run it again with `backsight run --nonfinite`: it names the line that produces the first NaN or infinity.",
        nodes=tuple(leaf.node for leaf in spoilt),
    )


def _of_saved(scene: Scene, node: Node, saved: Saved, count: int) -> Finding:
    what = scene.name_of_saved(saved) or f"A tensor of shape {shaped(saved.shape)}"
    where = f" in {module}" if (module := module_of(node)) else ""
    order = f"the first of {count} such tensors in forward order" if count > 1 else "the only such tensor"
    packed = any(each.state == "hooked" for i, held in scene.graph.saved.items() if i > node.index for each in held)
    born = (
        "so the bad values arose there or earlier. (Tensors packed by a checkpoint or another hook were not inspected.)"
        if packed
        else "so the bad values arose there or just before."
    )
    return warning(
        "BS108",
        f"{what}, saved for backward, holds NaN or infinity.",
        (f"{node.name}{where} saved it as `{saved.name}`: {order}, {born}",),
        _FIX,
        nodes=(node.index,),
    )
