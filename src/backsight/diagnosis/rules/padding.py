"""BS157: an item of the data has the number of the padding, so its row is never trained."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

import torch

from backsight.diagnosis.amending import rid_of_keyword
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import ending
from backsight.diagnosis.scene import Scene, rule
from backsight.diagnosis.wording import if_known, warning
from backsight.source import Place, only, statements_of
from backsight.source.body import dotted, keyword
from backsight.source.edits import OR
from backsight.story.holders import given, kept, users
from backsight.tape import Node, modules_in, registered

_ON = frozenset(
    {
        *("Sum", "Mean", "Add", "Sub", "Squeeze", "Unsqueeze", "View", "Sigmoid", "Pow", "Abs"),
        *("MseLoss", "BinaryCrossEntropy", "BinaryCrossEntropyWithLogits", "SmoothL1Loss", "HuberLoss"),
    }
)
"""What leads from a product to the loss where each sample counts: no mask takes one out."""

_DEEPEST = 16


@rule("BS157")
def padding(scene: Scene) -> Iterator[Finding]:
    """An embedding with `padding_idx` that is given one number for each sample, and multiplied with another one's.

    The padding of sequences is left out of the loss, and a missing category adds nothing to the features of a sample.
    But the product of a user and an item is the prediction: there is no sample without an item.
    """
    tables = {
        id(registered(each, "_parameters").get("weight")): each
        for model in scene.models.values()
        for _, each in modules_in(model)
        if isinstance(each, torch.nn.Embedding) and each.__dict__.get("padding_idx") is not None
    }
    above: Mapping[int, list[Node]] = users(scene.graph) if tables else {}
    leaves = {leaf.node: leaf for leaf in scene.graph.leaves}
    for node in scene.graph.nodes if tables else ():
        leaf = next((leaves[each.index] for each in given(node) if each.index in leaves), None)
        table = tables.get(id(leaf.tensor())) if leaf is not None and node.op == "Embedding" else None
        asked = kept(node, "indices") if table is not None else None
        if table is None or asked is None or asked.dim() != 1 or not _is_prediction(above, node):
            continue
        number = int(table.__dict__["padding_idx"])
        times = int((asked == number).sum())
        if times:
            name = leaf.name.removesuffix(".weight") if leaf is not None else "An embedding"
            yield _finding(scene, name, number, times, len(asked))
            return


def _is_prediction(above: Mapping[int, list[Node]], node: Node) -> bool:
    """Whether a row is multiplied with that of another table, and nothing is left out from there to the loss."""
    product = next((each for each in above.get(node.index, ()) if each.op == "Mul"), None)
    if product is None or sum(each.op == "Embedding" for each in given(product)) != 2:
        return False
    here = product
    for _ in range(_DEEPEST):
        after = above.get(here.index, [])
        if len(after) != 1 or after[0].op not in _ON:
            return False
        here = after[0]
        if here.shape == ():
            return True
    return False


def _finding(scene: Scene, name: str, number: int, times: int, rows: int) -> Finding:
    place = _made(scene, ending(name))
    edit = rid_of_keyword(place, "padding_idx", "Embedding")
    return warning(
        "BS157",
        f"{name} never learns row {number}: it is the padding, and samples use it.",
        (
            f"{times} of {rows} samples of this batch have index {number}; padding_idx={number} drops their gradient.",
            if_known(place, f"declares row {number} to be padding."),
        ),
        f"Remove padding_idx: nothing is padded here{edit}. {OR}Or number the items from "
        f"{number + 1}, with one more row."
        if not number
        else f"Remove padding_idx{edit}, {OR}or give no item the index {number}.",
        place,
    )


def _made(scene: Scene, last: str) -> Place | None:
    """Return the only statement that makes a table of this name."""
    return only(
        body.place(each)
        for body, each in statements_of(scene.site[0])
        if isinstance(each, ast.Assign) and any(ending(dotted(goal)) == last for goal in each.targets)
        if isinstance(each.value, ast.Call) and keyword(each.value, "padding_idx") is not None
    )
