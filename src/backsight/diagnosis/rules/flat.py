"""BS141: an operation that is flat wherever it has a derivative stands between what is trained and the loss."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from backsight.diagnosis.amending import expression_of, given_of, instead
from backsight.diagnosis.evidence.constants import summands
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.scene import Scene
from backsight.diagnosis.wording import if_known, listed, warning
from backsight.source import Body
from backsight.source.body import body_around, callee, calls_in, dotted, given_to, statement_at
from backsight.source.edits import OR
from backsight.story.holders import below
from backsight.tape import Graph, Leaf, Node
from backsight.tape.ops import op_name
from backsight.tracing import Line

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
        f"Compute the loss from {given if given != 'x' else 'the value before it'}, and use {op} for metrics only"
        f"{soft}. {OR}Or pass the gradient straight through: {through}{passes}."
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
