"""BS149: a random sample that passes no gradient to what its distribution is computed from."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from backsight.diagnosis.amending import instead, written
from backsight.diagnosis.evidence.cuts import DRAWS, ends, resampled
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.flat import reached
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.scene import Scene
from backsight.diagnosis.wording import listed, shown, warning
from backsight.source import Place, read_at
from backsight.source.body import callee, calls_in, expressions
from backsight.story.holders import below
from backsight.tape import Graph, Leaf
from backsight.tracing import Met, Severed

_DIFFERENCES = frozenset({"sub", "__sub__", "__rsub__", "subtract", "mse_loss"})
"""How a sample and its mean meet in the density that somebody writes out."""

_LAYERS = frozenset({"Addmm", "Mm", "Bmm", "Convolution", "MkldnnConvolution", "CudnnConvolution", "NativeLayerNorm"})
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
        if behind and line is not None and users & _LAYERS and not users & _SUMS:
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
