"""BS149: a random sample that passes no gradient to what its distribution is computed from."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from backsight.diagnosis.evidence.holders import below
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.scene import Scene
from backsight.diagnosis.wording import listed, shown
from backsight.source import Place
from backsight.source.body import body_around, callee, expressions, statement_at
from backsight.tape import Node
from backsight.tape.ops import VIEWS
from backsight.tracing import Met, Severed

_DRAWS = frozenset({"normal"})
"""What `sample()` calls that `rsample()` computes with a gradient: discrete distributions draw otherwise."""

_DIFFERENCES = frozenset({"sub", "__sub__", "__rsub__", "subtract", "mse_loss"})
"""How a sample and its mean meet in the density that somebody writes out."""

_LAYERS = frozenset({"Addmm", "Mm", "Bmm", "Convolution", "ConvolutionOverrideable"})


@rule("BS149")
def drawn_without_gradient(scene: Scene) -> Iterator[Finding]:
    """Under an exact watch: `sample()` of a distribution that has `rsample()` goes on into the loss.

    The score of a sample, `log_prob(action)`, is how a policy learns from one that has no gradient: then it is meant.
    """
    yield from _drawn_in_graph(scene)
    reached = {id(leaf.tensor()): leaf for leaf in scene.graph.leaves if leaf.owner}
    found: dict[Place, tuple[Severed, list[str], Met, int]] = {}
    scored: set[Place] = set()
    for node, met in scene.met().items():
        for cut, leaves, made in met.cuts:
            if cut.by != "no_grad" or cut.op not in _DRAWS or cut.line is None or made <= scene.began:
                continue
            place = cut.line.place
            names = [reached[id(p)].label for ref in leaves if (p := ref()) is not None and id(p) in reached]
            if met.op in _DIFFERENCES or "log_prob" in _calls(met.line.place):
                scored.add(place)
            elif names and "sample" in _calls(place):
                found.setdefault(place, (cut, names, met, node))
    for place, (_, names, met, node) in found.items():
        if place not in scored:
            yield Finding(
                "BS149",
                "warning",
                f"A sample passes no gradient to {listed(names, 2)}.",
                (
                    shown(place, "draws with sample(), which runs with gradients disabled."),
                    shown(met.line.place, "computes the loss from the sample."),
                ),
                f"Draw with rsample(): {_instead(place)}.",
                source=str(place),
                nodes=(node,),
            )


def _drawn_in_graph(scene: Scene) -> Iterator[Finding]:
    """Tell of `torch.normal(mean, std)`, which is in the graph and has no slope, where a layer is given the sample."""
    for node in (each for each in scene.graph.nodes if each.op == "Normal"):
        inside = set(below(scene.graph, [node.index]))
        names = [leaf.label for leaf in scene.graph.leaves if leaf.node in inside and leaf.owner]
        layer = _layer_over(scene, node)
        if not names or layer is None:
            continue
        line, used = scene.line_of(node), scene.line_of(layer)
        yield Finding(
            "BS149",
            "warning",
            f"A sample passes no gradient to {listed(names, 2)}.",
            (
                *((shown(line.place, "draws with torch.normal, whose gradient is zero."),) if line else ()),
                *((shown(used.place, "computes the loss from the sample."),) if used else ()),
            ),
            "Sample with reparametrization: mean + std * torch.randn_like(std).",
            source=str(line.place) if line is not None else None,
            nodes=(node.index,),
        )


def _layer_over(scene: Scene, node: Node) -> Node | None:
    """Return the layer that is given a sample, if nothing but layers is: a policy compares it with its mean as well."""
    stack, seen = [node], {node.index}
    found = None
    for at in stack:  # grows as we go
        for user in scene.graph.nodes:
            if user.index in seen or not any(edge is not None and edge.node.index == at.index for edge in user.inputs):
                continue
            seen.add(user.index)
            if user.op in _LAYERS:
                found = found or user
            elif user.op in VIEWS or user.op in ("Cat", "Mul", "Slice", "Clone"):
                stack.append(user)
            else:
                return None
    return found


def _calls(place: Place) -> set[str]:
    body = body_around(place.file, place.line)
    statement = statement_at(body, *place.position) if body is not None else None
    return {callee(n)[1] for n in expressions(statement) if isinstance(n, ast.Call)} if statement is not None else set()


def _instead(place: Place) -> str:
    return place.text.replace(".sample(", ".rsample(", 1)
