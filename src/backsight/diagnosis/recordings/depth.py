"""BS302, BS303: gradients, or the signal, vanish or explode on their way through the layers.

And how the model is built, so that no fix proposes what is there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.recordings.recording import Module, Recording, rule
from backsight.diagnosis.recordings.rows import STEADY, Rows
from backsight.diagnosis.wording import listed

LAYERS = 5
"""Layers that it takes to speak of depth."""

MOST_LAYERS = 512
"""Layers that are compared, each with each; of more, so many are chosen evenly."""

FALL = 4.0
"""Powers of ten between the first and the last layer that are too many; healthy networks stay within two."""

Layer = tuple[str, float, int]
"""A tensor's name, the median over the steps of its size, and how many steps had one."""


@dataclass(frozen=True)
class Depth:
    """The size of something in each layer of a model, in the order of the forward pass.

    what: "Gradients" of weights, "Gradients of outputs", or "Activations"; `of` says how their size is measured.
    per_layer: the factor by which it changes from one layer to the next, on the way that it takes: gradients go from
        the last layer to the first. It is the median over all pairs of layers (Theil and Sen), so that a few layers
        that are built or fed otherwise do not matter.
    """

    what: str
    of: str
    layers: tuple[Layer, ...]
    per_layer: float

    @property
    def powers(self) -> float:
        """Powers of ten by which it changes on its way through all layers."""
        return float(np.log10(self.per_layer) * (len(self.layers) - 1))

    def title(self, verb: str) -> str:
        """`Gradients vanish through 11 layers: a factor of 0.14 from each layer to the previous one.`"""
        towards = "next" if self.what == "Activations" else "previous"
        change = f"a factor of {self.per_layer:.2g} from each layer to the {towards} one"
        return f"{self.what} {verb} through {len(self.layers)} layers: {change}."

    def shown(self) -> str:
        """`0.weight 1.2e-09, 4.weight 3e-06, 8.weight 0.0041`: the first, the middle and the last."""
        picked = dict.fromkeys((0, len(self.layers) // 2, len(self.layers) - 1))
        sizes = ", ".join(f"{self.layers[k][0]} {self.layers[k][1]:.2g}" for k in picked)
        return f"{self.of}, median of {max(steps for _, _, steps in self.layers)} steps: {sizes}."


def depths(recording: Recording) -> Iterator[Depth]:
    """Yield what there is to say of each model that has layers enough and was recorded for steps enough.

    Too large weights make the signal grow on its way forward and the gradient on its way back, and the gradients of
    weights, which are the product of both, all alike: so each of the three is looked at.
    """
    gradients = (rows for rows in recording.rows("grad").values() if rows.is_matrix and rows.tensor.module is not None)
    for layers in _by_model(recording, gradients):
        yield Depth("Gradients", "Norms", layers, 1 / _per_layer(layers))
    for layers in _by_model(recording, _of_layers(recording, "output_grad")):
        yield Depth("Gradients of outputs", "Root mean squares", layers, 1 / _per_layer(layers))
    for layers in _by_model(recording, _of_layers(recording, "output")):
        yield Depth("Activations", "Root mean squares", layers, _per_layer(layers))


def _of_layers(recording: Recording, kind: str) -> Iterator[Rows]:
    """Yield the rows of this kind of innermost modules that have a weight matrix."""
    owners = {rows.tensor.module for rows in recording.rows("weight").values() if rows.is_matrix}
    for rows in recording.rows(kind).values():
        if rows.is_float and rows.tensor.module in owners and recording.module(rows).is_leaf:
            yield rows


def _by_model(recording: Recording, found: Iterator[Rows]) -> Iterator[tuple[Layer, ...]]:
    """Yield the layers of each model that has enough of them, in the order of the forward pass."""
    models: dict[str, list[Rows]] = {}
    for rows in found:
        models.setdefault(recording.module(rows).root, []).append(rows.last_calls)
    for each in models.values():
        each.sort(key=recording.place)
        layers = tuple(layer for rows in each if (layer := _layer(rows))[2] >= STEADY)
        if len(layers) >= LAYERS:
            yield layers


def _layer(rows: Rows) -> Layer:
    """Return the median size over the steps in which all was finite and not everything zero."""
    known = (rows["nans"] + rows["infs"] == 0) & (rows["l2"] > 0)
    scale = 1.0 if rows.tensor.kind == "grad" else np.sqrt(rows["count"][known])
    sizes = rows["l2"][known] / scale
    return rows.tensor.name, float(np.median(sizes)) if len(sizes) else 0.0, len(sizes)


def _per_layer(layers: tuple[Layer, ...]) -> float:
    """Return the factor from a layer to the one after it."""
    at = np.unique(np.linspace(0, len(layers) - 1, min(len(layers), MOST_LAYERS)).astype("<i8"))
    logs: NDArray[np.float64] = np.log([layers[k][1] for k in at.tolist()])
    first, second = np.triu_indices(len(logs), 1)
    return float(np.exp(np.median((logs[second] - logs[first]) / (at[second] - at[first]))))


@rule("BS303")
def exploding(recording: Recording) -> Iterator[Finding]:
    """They become larger from layer to layer, steadily, and all in all by ten thousand times or more."""
    found = next((depth for depth in depths(recording) if depth.powers >= FALL), None)
    if found is not None:
        back = ("Gradients that pass through these layers are multiplied the same way.",)
        yield Finding(
            "BS303",
            "warning",
            found.title("explode"),
            (found.shown(), *(back if found.what == "Activations" else ())),
            _fix_of_exploding(Architecture.of(recording, found.layers)),
            source=_line_of_most(recording, found.layers),
        )


def _fix_of_exploding(model: Architecture) -> str:
    """Return what this model lacks, and nothing that it has."""
    found = ["Start with smaller weights (torch.nn.init.kaiming_normal_ for ReLU, xavier_normal_ for tanh)"]
    if not model.normalizations:
        found.append("add normalization layers")
    if model.residual is not False:
        found.append("scale the residual branches")
    text = ", ".join(found[:-1]) + (f"{',' * (len(found) > 2)} or {found[-1]}" if len(found) > 1 else found[-1])
    return f"{text}. Clipping gradients does not fix it."


@rule("BS302")
def vanishing(recording: Recording) -> Iterator[Finding]:
    """They become smaller from layer to layer, steadily, and all in all by ten thousand times or more."""
    found = next((depth for depth in depths(recording) if depth.powers <= -FALL), None)
    if found is not None:
        lost = "last layers hardly see the data" if found.what == "Activations" else "first layers hardly learn"
        yield Finding(
            "BS302",
            "warning",
            found.title("vanish"),
            (found.shown(), f"The {lost}."),
            _fix_of_vanishing(Architecture.of(recording, found.layers)),
            source=_line_of_most(recording, found.layers),
        )


def _line_of_most(recording: Recording, layers: Iterable[Layer]) -> str | None:
    """Return the line that computes most of these layers, as in a loop; None where one computes all."""
    graph, owners = recording.graph, _owners(recording, layers)
    if graph is None or not graph.lines:
        return None
    leaves = {leaf.node for leaf in graph.leaves if leaf.module in owners and len(leaf.shape) > 1}
    used = (graph.lines[node.index] for node, edge in graph.edges if edge.node.index in leaves)
    lines = Counter(line for line in used if line)
    (line, count), *others = lines.most_common() or [(None, 0)]
    return line if others and 2 * count > lines.total() else None


def _owners(recording: Recording, layers: Iterable[Layer]) -> set[str]:
    """Return the names of the modules of these layers."""
    owners = {tensor.name: tensor.module for tensor in recording.run.tensors}
    return {owner for name, _, _ in layers if (owner := owners.get(name)) is not None}


def _fix_of_vanishing(model: Architecture) -> str:
    """Return what this model lacks, and nothing that it has."""
    found = []
    if model.saturating:
        found.append(f"use ReLU or GELU instead of {listed(model.saturating, 3)}")
    if model.normalizes_after:
        found.append(
            "normalize the input of each block instead of its output"
            + (" (norm_first=True)" if model.has_norm_first else "")
            + ", or warm up the learning rate"
        )
    if not model.normalizations:
        init = "xavier_normal_ with a gain of 5/3 for tanh" if "Tanh" in model.saturating else "kaiming_normal_"
        found.append(f"initialize weights for the activation (torch.nn.init.{init}) and add normalization layers")
    if not model.residual:
        found.append("add residual connections")
    if not found:
        found.append("initialize the last layer of each block smaller, or warm up the learning rate")
    text = "; or ".join(found)
    return f"{text[0].upper()}{text[1:]}."


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
        owners = _owners(recording, layers)
        roots = {recording.modules[owner].root for owner in owners if owner in recording.modules}
        held = [module for module in recording.modules.values() if module.root in roots]
        types = {module.type for module in held}
        blocks = _ending_with_norm(recording, held)
        return cls(
            tuple(sorted((types | _functions(recording)) & _SATURATING)),
            sum(bool(_NORMALIZES.search(module.type)) for module in held),
            len(blocks) > 1,
            any(module.type in _NORM_FIRST for module in blocks),
            True if any(map(_RESIDUAL.search, types)) else _adds_to_itself(recording),
        )


def _ending_with_norm(recording: Recording, modules: Iterable[Module]) -> list[Module]:
    """Return the modules with weights and normalizations right inside of them, where the latter run last."""
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


def _functions(recording: Recording) -> set[str]:
    """Return the operations that the graph holds as often as a deep model has layers, its activations among them."""
    graph = recording.graph
    found = Counter(node.op for node in graph.nodes) if graph is not None else Counter[str]()
    return {op for op, count in found.items() if count >= LAYERS}


def _adds_to_itself(recording: Recording) -> bool | None:
    """Whether the graph holds sums of something and what was computed from it."""
    graph = recording.graph
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
