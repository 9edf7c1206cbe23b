"""What the modules and the graph of a recorded model tell of how it is built: so that no fix proposes what is there."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from backsight.diagnosis.recordings.depth import Layer
from backsight.diagnosis.recordings.recording import Module, Recording
from backsight.runs import DamagedRun

_SATURATING = frozenset(("Sigmoid", "Tanh", "Hardsigmoid", "Hardtanh", "Softsign", "LogSigmoid"))
_NORMALIZES = re.compile(r"Norm(\d?d)?$|RMSNorm|WeightNorm")
_ADDS = ("Add",)
_PASSING = ("Mul", "Div", "NativeDropout", "Clone", "View", "UnsafeView", "Transpose", "ToCopy", "Alias")
_RESIDUAL = re.compile(r"Transformer(En|De)coder|Transformer(En|De)coderLayer|^(BasicBlock|Bottleneck)$|Residual")
"""Modules of PyTorch and torchvision, and names, that stand for a sum with what went in."""

_NORM_FIRST = ("TransformerEncoderLayer", "TransformerDecoderLayer")
"""Modules with an argument of this name."""

_REACH = 400
"""Nodes of the graph that are looked at from one sum to the other of its terms."""


@dataclass(frozen=True)
class Architecture:
    """How a model is built.

    saturating: the types of its activations whose derivative is near zero far from 0.
    normalizations: how many modules normalize.
    normalizes_after: whether the blocks that repeat end with a normalization, as the first Transformers did.
    has_norm_first: whether their type takes `norm_first`.
    residual: whether terms are added to what they were computed from; None if neither modules nor a graph tell.
    """

    saturating: tuple[str, ...]
    normalizations: int
    normalizes_after: bool
    has_norm_first: bool
    residual: bool | None

    @classmethod
    def of(cls, recording: Recording, layers: Iterable[Layer]) -> Architecture:
        """Look at the model that these layers are of."""
        owners = {tensor.name: tensor.module for tensor in recording.run.tensors}
        roots = {
            recording.modules[owner].root for name, _, _ in layers if (owner := owners.get(name)) in recording.modules
        }
        held = [module for module in recording.modules.values() if module.root in roots]
        types = {module.type for module in held}
        blocks = _ending_with_norm(recording, held)
        return cls(
            tuple(sorted(types & _SATURATING)),
            sum(bool(_NORMALIZES.search(module.type)) for module in held),
            len(blocks) > 1,
            any(module.type in _NORM_FIRST for module in blocks),
            True if any(map(_RESIDUAL.search, types)) else _adds_to_itself(recording),
        )


def _ending_with_norm(recording: Recording, modules: Iterable[Module]) -> list[Module]:
    """Return the blocks in which each normalization runs after what it stands beside, and not before.

    A block is a module with normalizations and others with weights right inside of it.
    """
    order = recording.order
    inside: dict[str, list[Module]] = {}
    for module in recording.modules.values():
        if module.name in order and module.name:
            inside.setdefault(module.name.rpartition(".")[0], []).append(module)
    found = []
    for module in modules:
        called = sorted(inside.get(module.name, []), key=lambda each: order[each.name])
        norms = [bool(_NORMALIZES.search(each.type)) for each in called]
        others = [
            each for each, norm in zip(called, norms, strict=True) if not norm and (each.trains or not each.is_leaf)
        ]
        if not any(norms) or not others or module.type == "Sequential":
            continue
        places = [order[each.name] for each, norm in zip(called, norms, strict=True) if norm]
        if places[0] > order[others[0].name] and places[-1] > order[others[-1].name]:
            found.append(module)
    return found


def _adds_to_itself(recording: Recording) -> bool | None:
    """Whether the graph holds sums of something and what was computed from it."""
    try:
        graph: Any = recording.run.graph
    except DamagedRun:
        return None
    if graph is None:
        return None
    return any(_is_residual(node) for node in graph.nodes if node.op in _ADDS)


def _is_residual(node: Any) -> bool:
    """Whether one term of a sum leads to the other, or to what that is but scaled or dropped of."""
    terms = [edge.node for edge in node.inputs if edge and edge.node.kind != "leaf"]
    if len(terms) != 2:
        return False
    one, other = terms
    return _leads(one, _unscaled(other)) or _leads(other, _unscaled(one))


def _unscaled(node: Any) -> Any:
    """Return the node behind operations that pass a tensor on, scaled or in another shape."""
    while node.op in _PASSING:
        behind = [edge.node for edge in node.inputs if edge and edge.node.kind != "leaf"]
        if len(behind) != 1:
            break
        (node,) = behind
    return node


def _leads(start: Any, end: Any) -> bool:
    """Whether there is a way from a node to another: nodes are numbered in the order of backward."""
    stack, seen = [start], {start.index}
    while stack and len(seen) < _REACH:
        for edge in stack.pop().inputs:
            if edge and edge.node.index == end.index:
                return True
            if edge and edge.node.index < end.index and edge.node.index not in seen:
                seen.add(edge.node.index)
                stack.append(edge.node)
    return False
