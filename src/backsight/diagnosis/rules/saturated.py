"""BS131: a tanh or a sigmoid is at its bounds, where it has no slope."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.scene import Scene, rule
from backsight.diagnosis.wording import if_known, tensor_of, warning
from backsight.tape import Node
from backsight.tape.modules import module_of
from backsight.tape.saved import is_readable

_FLAT = 0.12
"""The mean slope, as a part of the steepest, that is too little to begin with: its inputs have a spread of 6 or so."""

_FEWEST = 64
"""Results that are too few for a mean."""

_LARGE = 4.0
"""An input of a layer is large, or its weights are, if it is this many times what keeps the spread of the results."""


@rule("BS131")
def saturated(scene: Scene) -> Iterator[Finding]:
    """What tanh or sigmoid have saved shows their slope. A few flat ones may be gates.

    It is a fault of the start, and for `backsight run` one that lasts: later a unit may be sure of itself with reason.
    """
    slopes = [(node, slope) for node in scene.graph.nodes if (slope := _slope(scene, node)) is not None]
    flat = [(node, slope) for node, slope in slopes if slope < _FLAT]
    if flat and 2 * len(flat) > len(slopes):
        yield _finding(scene, *min(flat, key=lambda each: each[0].sequence or 0), len(flat))


def _slope(scene: Scene, node: Node) -> float | None:
    """Return the mean slope at what a node has saved, as a part of the steepest; None where there is none to be told.

    A sigmoid that has one of its bounds alone may be a gate that begins shut.
    """
    if node.op not in ("Tanh", "Sigmoid"):
        return None
    result = next((s.tensor() for s in scene.graph.saved.get(node.index, ()) if s.name == "result"), None)
    if result is None or not is_readable(result) or result.numel() < _FEWEST:
        return None
    with torch.no_grad():
        y = result.detach().double()
        if node.op == "Tanh":
            return float((1 - y * y).mean())
        both = min(float((y < 0.01).double().mean()), float((y > 0.99).double().mean())) > 0.1
        return float(4 * (y * (1 - y)).mean()) if both else 1.0


def _finding(scene: Scene, node: Node, slope: float, count: int) -> Finding:
    """`node` is the first of them in the forward pass."""
    function, line, module = node.op.lower(), scene.line_of(node), module_of(node)
    others = f", the first of {count} such" if count > 1 else ""
    cause, fix = _why(scene, node)
    return warning(
        "BS131",
        f"{function} is saturated{f' in module {module}' if module else ''}.",
        (
            if_known(line, f"computes {function}{others}."),
            f"Its mean slope is {slope:.1%} of the maximum, and backward multiplies the gradient by it.",
            *((cause,) if cause else ()),
        ),
        fix,
        line,
        nodes=(node.index,),
    )


def _why(scene: Scene, node: Node) -> tuple[str, str]:
    """Return what is too large before an activation, as evidence, and what to do."""
    first = next((edge.node for edge in node.inputs if edge is not None), None)
    saved = {s.name: s for s in scene.graph.saved.get(first.index, ())} if first is not None else {}
    given = saved["mat1"].tensor() if "mat1" in saved else None
    weight = saved["mat2"].tensor() if "mat2" in saved else None
    if first is not None and given is not None and is_readable(given) and (rms := _rms(given)) > _LARGE:
        name = scene.name_of_saved(saved["mat1"]) or tensor_of(given.shape)
        return (
            f"The input of its layer, {name}, is large: {rms:.3g} on average.",
            "Scale the inputs: (x - mean) / std per feature, computed on the training data. Or add a normalization "
            "layer.",
        )
    gain = _rms(weight) * weight.shape[0] ** 0.5 if weight is not None and is_readable(weight) else 0.0
    if gain > _LARGE:
        name = scene.name_of_saved(saved["mat2"]).removesuffix(".T") or "the weight of its layer"
        return (
            f"Its layer makes values {gain:.3g} times larger: {name} starts out large.",
            "Start with smaller weights, for example from torch.nn.init.xavier_normal_.",
        )
    return "", "Scale the inputs, start with smaller weights, or add a normalization layer before it."


def _rms(tensor: torch.Tensor) -> float:
    with torch.no_grad():
        return float(tensor.detach().double().square().mean().sqrt())
