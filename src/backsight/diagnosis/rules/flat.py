"""BS131, BS141, BS149: what passes no gradient on: what is flat, or saturated, or a sample."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence

import torch

from backsight.diagnosis.amending import expression_of, given_of, instead, written
from backsight.diagnosis.evidence.constants import summands
from backsight.diagnosis.evidence.cuts import DRAWS, ends, resampled
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.scene import Scene, rule
from backsight.diagnosis.wording import if_known, listed, shown, tensor_of, warning
from backsight.source import Body, Place, read_at
from backsight.source.body import body_around, callee, calls_in, dotted, expressions, given_to, statement_at
from backsight.source.edits import OR
from backsight.story.holders import below
from backsight.tape import Graph, Leaf, Node
from backsight.tape.modules import module_of
from backsight.tape.ops import op_name
from backsight.tape.saved import is_readable
from backsight.tracing import Line, Met, Severed

_STEPS = frozenset({"Round", "Floor", "Ceil", "Trunc", "Sign", "Sgn", "Heaviside"})
_SAMPLES = frozenset({"Bernoulli", "Poisson", "Normal"})
_COMPARES = frozenset({"Ge", "Gt", "Le", "Lt", "Eq", "Ne"})
"""In place, `x.ge_(0)`, these keep the graph."""
_LEAVES = "The gradient of "
_FLAT = _STEPS | _SAMPLES | _COMPARES


@rule("BS141")
def flat(scene: Scene) -> Iterator[Finding]:
    """Every way from a term of the loss, or from the loss to parameters of an optimizer, leads through such operations.

    A straight-through estimator, `x + (x.round() - x).detach()`, has none in its graph; and where `x - x.floor()` is
    taken, the gradient has another way. The nodes of a finding have the leaves in them that another loss may train.
    """
    graph = scene.graph
    if not any(op_name(kind.name) in _FLAT for kind in graph.types):
        return
    flats = {node.index for node in graph.nodes if _is_flat(node)}
    if not flats:
        return
    owned = {leaf.node: leaf for leaf in graph.leaves if leaf.owner}
    for title, index, leaves in _dead(graph, flats, owned):
        ends = [graph.nodes[each] for each in sorted(reached(graph, [index], flats) & flats)]
        behind = [each for each in ends if set(below(graph, [each.index])) & {leaf.node for leaf in leaves}]
        if behind:
            yield _finding(scene, title, behind, leaves)
            return


def _dead(graph: Graph, flats: set[int], owned: dict[int, Leaf]) -> Iterator[tuple[str, int, list[Leaf]]]:
    """Yield what gets nothing, each with the node above it and the leaves behind: a term of the loss, else leaves."""
    for root in graph.roots:
        alive = reached(graph, [root.index], flats)
        if not alive & set(owned):
            behind = [owned[each] for each in set(below(graph, [root.index])) & set(owned)]
            yield "The loss trains nothing", root.index, behind
    for node in summands(graph)[1]:
        inside = set(below(graph, [node.index])) | {node.index}
        behind = [leaf for at, leaf in owned.items() if at in inside]
        if behind and not reached(graph, [node.index], flats) & {leaf.node for leaf in graph.leaves}:
            yield "A loss term trains nothing", node.index, behind
    alive = reached(graph, [root.index for root in graph.roots], flats)
    behind = [leaf for at, leaf in owned.items() if at not in alive]
    if behind:
        names = listed([leaf.label for leaf in behind], 2)
        yield f"{_LEAVES}{names} is always zero", graph.roots[0].index, behind


def _finding(scene: Scene, title: str, ends: Sequence[Node], leaves: Sequence[Leaf]) -> Finding:
    node, op = ends[0], ends[0].op.lower()
    line = scene.line_of(node)
    name = f"torch.{op}" if node.op not in _COMPARES else "A comparison"
    what = "A sample" if node.op in _SAMPLES else name
    why = "a sample has no gradient to what it is drawn from" if node.op in _SAMPLES else "its slope is zero"
    behind = None if title.startswith(_LEAVES) else f"Behind it: {listed([leaf.label for leaf in leaves], 3)}."
    given = _given(body_around(line.file, line.line), line.line, op) if line is not None else ""
    return warning(
        "BS141",
        f"{title}: {what} passes on no gradient.",
        (if_known(line, f"ends the gradient: {why}."), behind),
        _fix(node, op, given or "x", line),
        line,
        nodes=(node.index, *(leaf.node for leaf in leaves if title.startswith(_LEAVES))),
    )


def _fix(node: Node, op: str, given: str, line: Line | None) -> str:
    if node.op in _SAMPLES:
        return (
            "Sample with reparametrization, such as mean + std * torch.randn_like(std) or rsample() of a relaxed "
            "distribution; or train with log_prob() of the sample."
        )
    hard = f"torch.{op}({given})" if node.op not in _COMPARES else "hard"
    body, statement, call = expression_of(line)
    inner, through = given_of(call, op), f"{given} + ({hard} - {given}).detach()"
    soft = passes = ""
    if body is not None and call is not None and inner is not None and dotted(inner) == given:
        soft, passes = (instead(body, statement, {call: new}) for new in (given, through))
    return (
        f"Compute the loss from {given if given != 'x' else 'the value before it'}, and use {op} only where no "
        f"gradient is needed{soft}. {OR}Or pass the gradient straight through: {through}{passes}."
    )


def _given(body: Body | None, line: int, op: str) -> str:
    """Return what the operation is given, if the statement says it in one name: `torch.round(score)`, `h.sign()`."""
    for call in calls_in(statement_at(body, line)):
        if callee(call)[1] == op:
            return dotted(next(iter(given_to(call)), None)) or ""
    return ""


def _is_flat(node: Node) -> bool:
    return node.kind == "op" and node.op in _FLAT and (node.dtype is None or not node.dtype.is_complex)


def reached(graph: Graph, starts: Sequence[int], flats: set[int]) -> set[int]:
    """Return the nodes that a gradient comes to from some nodes, up to those that pass none on."""
    seen, stack = set(starts), list(starts)
    while stack:
        at = stack.pop()
        if at in flats:
            continue
        for edge in graph.nodes[at].inputs:
            if edge is not None and edge.node.index not in seen:
                seen.add(edge.node.index)
                stack.append(edge.node.index)
    return seen


# BS149: a random sample that passes no gradient to what its distribution is computed from.


_DIFFERENCES = frozenset({"sub", "__sub__", "__rsub__", "subtract", "mse_loss"})
"""How a sample and its mean meet in the density that somebody writes out."""

_READS = frozenset({"Addmm", "Mm", "Bmm", "Convolution", "MkldnnConvolution", "CudnnConvolution", "NativeLayerNorm"})
_SUMS = frozenset({"Sub", "Rsub", "MseLoss"})
_REARRANGES = frozenset({"Cat", "Stack", "View", "UnsafeView", "Unsqueeze", "Squeeze", "Expand", "Transpose", "T"})


@rule("BS149")
def drawn_without_gradient(scene: Scene) -> Iterator[Finding]:
    """Under an exact watch: `sample()` of a distribution that has `rsample()` goes on into the loss.

    The score of a sample, `log_prob(action)`, is how a policy learns from one that has no gradient: then it is meant.
    """
    leaves_of = {id(leaf.tensor()): leaf for leaf in scene.graph.leaves if leaf.owner}
    found: dict[Place, tuple[Severed, list[str], Met, int]] = {}
    scored: set[Place] = set()
    for node, met in scene.met().items():
        for cut, leaves, made in met.cuts:
            if cut.by != "no_grad" or cut.op not in DRAWS or cut.line is None or made <= scene.began:
                continue
            place = cut.line.place
            held = [leaves_of[id(p)] for ref in leaves if (p := ref()) is not None and id(p) in leaves_of]
            names = _labels(held)
            if met.op in _DIFFERENCES or "log_prob" in _calls(met.line.place):
                scored.add(place)
            elif names and resampled(cut):
                found.setdefault(place, (cut, names, met, node))
    yield from _normals(scene)
    for place, (cut, names, met, node) in found.items():
        if place not in scored:
            yield warning(
                "BS149",
                f"A sample passes no gradient to {listed(names, 2)}.",
                (shown(place, ends(cut)), shown(met.line.place, "computes the loss from the sample.")),
                f"Draw with rsample(): {resampled(cut)}{written(place, resampled(cut))}.",
                place,
                nodes=(node,),
            )


def _normals(scene: Scene) -> Iterator[Finding]:
    """`torch.normal(mean, std)` is a node whose gradient is zero: a layer that reads the sample trains neither."""
    graph = scene.graph
    drawn = {node.index for node in graph.nodes if node.op == "Normal"}
    if not drawn:
        return
    owned = {leaf.node: leaf for leaf in graph.leaves if leaf.owner}
    alive = reached(graph, [root.index for root in graph.roots], drawn) & set(owned)
    for index in sorted(drawn):
        behind = _labels([owned[each] for each in set(below(graph, [index])) & alive])
        users = _users(graph, index)
        line = scene.line_of(graph.nodes[index])
        if behind and line is not None and users & _READS and not users & _SUMS:
            yield warning(
                "BS149",
                f"A sample passes no gradient to {listed(behind, 2)}.",
                (shown(line, "draws a sample, which has no gradient to its mean and standard deviation."),),
                f"Draw it as {''.join(_reparametrized(line.place))}.",
                line,
                nodes=(index,),
            )


def _labels(leaves: Iterable[Leaf]) -> list[str]:
    """Return what leaves are called, a weight before its bias."""
    return [leaf.label for leaf in sorted(leaves, key=lambda leaf: leaf.index)]


def _users(graph: Graph, index: int) -> set[str]:
    """Return the operations that read what a node returns, beyond those that only rearrange it."""
    users: set[str] = set()
    stack, seen = [index], {index}
    for at in stack:  # grows as we go
        for node in graph.nodes:
            if node.index not in seen and any(e and e.node.index == at for e in node.inputs):
                seen.add(node.index)
                if node.op in _REARRANGES:
                    stack.append(node.index)
                else:
                    users.add(node.op)
    return users


def _reparametrized(place: Place) -> tuple[str, str]:
    """Return a draw from a normal distribution that passes on the gradient, and what writes it there."""
    body, statement = read_at(place)
    for node in expressions(statement):
        match node:
            case ast.Call(func=ast.Attribute(attr="normal"), args=[mean, std]):
                mean_text, std_text = ast.unparse(mean), ast.unparse(std)
                new = f"{mean_text} + {std_text} * torch.randn_like({std_text})"
                return new, instead(body, statement, {node: new})
    return "mean + std * torch.randn_like(std)", ""


def _calls(place: Place) -> set[str]:
    statement = read_at(place)[1]
    return {callee(n)[1] for n in calls_in(statement)} if statement is not None else set()


# BS131: a tanh or a sigmoid is at its bounds, where it has no slope.


_TOO_FLAT = 0.12
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
    flat = [(node, slope) for node, slope in slopes if slope < _TOO_FLAT]
    if flat and 2 * len(flat) > len(slopes):
        yield _of_saturated(scene, *min(flat, key=lambda each: each[0].sequence or 0), len(flat))


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


def _of_saturated(scene: Scene, node: Node, slope: float, count: int) -> Finding:
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
