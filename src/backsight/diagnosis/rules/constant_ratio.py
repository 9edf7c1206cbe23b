"""BS151: a ratio is 1 for ever, or a difference 0: both sides are computed by one network, or a weight by itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.flat import reached
from backsight.diagnosis.scene import Scene, rule
from backsight.diagnosis.wording import if_known, listed, shaped, shown, warning
from backsight.naming import search
from backsight.source import only
from backsight.story.holders import below
from backsight.story.ratios import are_alike, is_raised
from backsight.tape import Edge, Graph, Leaf, Node, parameters_in
from backsight.tape.saved import is_readable
from backsight.tracing import Met, Watch, met


@rule("BS151")
def constant_ratio(scene: Scene) -> Iterator[Finding]:
    """Under an exact watch: exp of a difference, or a quotient, of two results that were seen to be the same.

    Both have to be made by the same operations from the same leaves: then they are always the same, and what one side
    gives to a gradient the other takes away. Against a constant, a ratio is 1 only until the first update.
    """
    yield from sums_of_one(scene)
    for index, seen in scene.met().items():
        node = scene.graph.nodes[index]
        first, second = node.inputs if seen.same and len(node.inputs) == 2 else (None, None)
        if first is None or second is None or first.node.index == second.node.index:
            continue
        is_ratio = node.op == "Div" or (node.op == "Sub" and is_raised(scene.graph, node))
        if is_ratio and are_alike(first.node, second.node):
            yield _finding(node, seen)


def _finding(node: Node, met: Met) -> Finding:
    new, old = met.operands
    both = f"`{new}` and `{old}`" if new and old else "both sides"
    return warning(
        "BS151",
        f"A ratio is always 1: {both} are computed by the same network with the same parameters.",
        (
            shown(met.line.place, "compares two results that are bit-identical, and both attached to their graphs."),
            "Their gradients cancel: the parameters get zeros through the ratio.",
        ),
        f"Compute {f'`{old}`' if old else 'the old one'} once, before the updates, under torch.no_grad(), and keep it. "
        "Recomputed in each update, it only repeats the new one.",
        met.line.place,
        nodes=(node.index,),
    )


_GUARDS = frozenset({"Add", "Clamp", "ClampMin", "Unsqueeze", "Expand"})
"""What may stand between a sum and the quotient: a number against a division by zero, the dimension put back."""

_KEEP = frozenset({"Sigmoid", "Softmax", "Exp", "Relu", "Softplus", "ToCopy", "View", "UnsafeView", "ReshapeAlias"})
_OF_THE_PROGRAM = frozenset({"Topk", "Addmm", "Mm"})
"""What has one entry because the program says so, and not because a batch happens to."""

_NEAR = 1e-3


def sums_of_one(scene: Scene) -> Iterator[Finding]:
    """Yield the quotients that are always 1, if parameters of an optimizer have no other way to the loss."""
    graph = scene.graph
    for node in graph.nodes:
        numerator = _divided_by_itself(node)
        if numerator is None or not _is_one(node):
            continue
        alive, inside = (
            reached(graph, [root.index for root in graph.roots], {node.index}),
            set(below(graph, [numerator])),
        )
        lost = [leaf for leaf in graph.leaves if leaf.owner and leaf.node in inside and leaf.node not in alive]
        if lost:
            yield _finding_of_sum(scene, node, lost)
            return


def _divided_by_itself(node: Node) -> int | None:
    """Return the node of what is divided by its own sum over a last dimension of one entry."""
    edges = node.inputs if node.op == "Div" else ()
    shape = node.shape
    if len(edges) != 2 or edges[0] is None or edges[1] is None or not shape or shape[-1] != 1 or shape.count(1) != 1:
        return None
    total: Edge | None = edges[1]
    while total is not None and total.node.op in _GUARDS:
        total = _only(total.node)
    summed = _only(total.node) if total is not None and total.node.op == "Sum" else None
    if total is None or summed is None or total.node.shape not in (shape, shape[:-1]):
        return None
    same = summed.node.index == edges[0].node.index and summed.output == edges[0].output
    return edges[0].node.index if same and _is_of_the_program(edges[0].node) else None


def _only(node: Node) -> Edge | None:
    """Return the only input that requires a gradient."""
    return only(edge for edge in node.inputs if edge is not None)


def _is_of_the_program(node: Node) -> bool:
    while node.op in _KEEP and (edge := _only(node)) is not None:
        node = edge.node
    return node.op in _OF_THE_PROGRAM


def _is_one(node: Node) -> bool:
    """Whether both sides are as good as equal: what is added to a sum may be more than a guard."""
    saved = {each.name: tensor for each in node.saved if (tensor := each.tensor()) is not None and is_readable(tensor)}
    one, other = saved.get("self"), saved.get("other")
    if one is None or other is None:
        return False
    with torch.no_grad():
        return bool(((one.detach() - other.detach()).abs() <= _NEAR * other.detach().abs()).all())


def _finding_of_sum(scene: Scene, node: Node, lost: list[Leaf]) -> Finding:
    line = scene.line_of(node)
    divides = f"divides a tensor of shape {shaped(node.shape)} by its own sum over the last dimension, of size 1."
    names = listed([leaf.label for leaf in lost], 2)
    return warning(
        "BS151",
        f"A ratio is always 1: {names} cannot learn through a weight divided by itself.",
        (
            if_known(line, divides),
            "The quotient does not depend on its input, so its gradient is zero except for rounding.",
        ),
        "Skip the division where there is only one weight, such as top-1 routing, so that the weight itself scales the "
        "result. Or use more than one.",
        line,
        nodes=(node.index,),
    )


_WITHOUT_GRADIENTS = ("no_grad", "inference")


@dataclass(frozen=True)
class Compared:
    """A difference of two results of the same parameters, of which one was computed without gradients."""

    met: Met
    leaves: tuple[torch.Tensor, ...]


def compared(graph: Graph, watch: Watch) -> Compared | None:
    """Return the first difference whose sides had the same values and parameters; a ratio, exp of one, is rightly 1."""
    index = {node.sequence: node.index for node in graph.nodes if node.sequence is not None and node.kind != "leaf"}
    for number, meeting in sorted(met(watch, list(index)).items()) if watch.level == "exact" else ():
        node = graph.nodes[index[number]]
        sides = [edge.node.index for edge in node.inputs if edge is not None]
        if not meeting.repeats or node.op != "Sub" or len(sides) != 1 or is_raised(graph, node):
            continue
        cut = {id(each): each for each in _behind(meeting)}
        inside = set(below(graph, sides))
        trained = {id(leaf.tensor()) for leaf in graph.leaves if leaf.node in inside and leaf.owner}
        if cut and set(cut) <= trained:
            return Compared(meeting, tuple(cut.values()))
    return None


def _behind(meeting: Met) -> Iterator[torch.Tensor]:
    """Yield the leaves that a gradient would have reached, had they not been used without gradients."""
    for severed, leaves, _ in meeting.cuts:
        if severed.by in _WITHOUT_GRADIENTS:
            yield from (leaf for ref in leaves if (leaf := ref()) is not None)


def own_reference(seen: Compared, loss: float, steps: int, models: Iterable[torch.nn.Module]) -> Finding:
    """Return the finding of a loss that is the same in each of some steps, because of such a difference."""
    line, (one, other) = seen.met.line, seen.met.operands
    wanted = {id(each) for each in seen.leaves}
    model = next((each for each in models if wanted <= {id(p) for p in parameters_in(each)}), None)
    names = list(dict.fromkeys(name.path for name in search([model], limit=6).names[0])) if model is not None else []
    short = [each for each in names if not any(each != kept and kept.endswith(f".{each}") for kept in names)]
    both = f"`{one}` and `{other}`" if one and other else "both sides"
    name = short[0] if short else "model"
    return warning(
        "BS151",
        f"The loss never changes: {both} are computed by the same model, which is its own reference.",
        (
            shown(line.place, "subtracts two results of the same parameters, so the difference is exactly 0."),
            f"The loss was exactly {loss:.6g} in each of the {steps} steps that were audited.",
            f"{listed(short, 3)} are the same object." if len(short) > 1 else None,
        ),
        f"Make a frozen copy before training, reference = copy.deepcopy({name}).requires_grad_(False), and compute "
        f"{f'`{other}`' if other else 'the reference side'} with that.",
        line.place,
    )
