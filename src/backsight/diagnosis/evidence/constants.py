"""The terms of a loss, and values in it that nobody meant to cut off: derivatives, and new leaves made of results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from backsight.diagnosis.scene import Scene
from backsight.story.holders import below, given, leaves_below
from backsight.tape import Graph, Leaf, Node
from backsight.tracing import Met, Severed, current

_DIFFERENCES = frozenset(
    {"add", "__add__", "__radd__", "sub", "__sub__", "__rsub__", "subtract", "mse_loss", "l1_loss"}
)


class Derivative(NamedTuple):
    """A derivative without a graph that is added to what trained parameters compute: by which node, and the leaves it
    was taken with respect to.

    missed: the trained leaves that the term of the loss then does not reach, though it comes of them. beside: what else
    cuts it off from them.
    """

    node: int
    met: Met
    cut: Severed
    points: tuple[Leaf, ...] = ()
    missed: tuple[Leaf, ...] = ()
    beside: Severed | None = None


class Renewed(NamedTuple):
    """A term of the loss that ends in a new leaf, which was made of the values of results."""

    node: int
    leaf: Leaf
    cut: Severed


def derivatives(scene: Scene) -> Iterator[Derivative]:
    """Yield the derivatives, by `autograd.grad` without `create_graph=True`, that a residual counts as constants.

    In a residual of an equation, `u_t + 2 * u`, both come of the same parameters and the same points. An attack adds a
    derivative to what goes into the network, a step of an inner loop one to the parameters themselves, and a weight is
    multiplied: there the derivative is to be a constant. Where the rest of a residual is cut off as well, `u_t + 2 *
    u.detach()`, its term of the loss reaches none of the parameters that it comes of: an attack's reaches those.
    """
    told: set[object] = set()
    terms = _Terms(scene)
    for node, met in scene.met().items():
        cuts = [each for each in met.cuts if each[0].by == "derivative" and each[0].line is not None]
        if not cuts or met.op not in _DIFFERENCES:
            continue
        behind = leaves_below(scene.graph, node)
        for cut, leaves, made in cuts:
            asked = {id(leaf) for ref in leaves if (leaf := ref()) is not None}
            ours = [leaf for leaf in behind if id(leaf.tensor()) in asked]
            counts = {shape[0] for shape in met.shapes if shape}
            free = (p for p in ours if not p.owner and p.kind != "parameter")
            points = tuple(p for p in free if p.shape and p.shape[0] in counts)
            if made > scene.began and points and any(leaf.owner for leaf in ours) and cut.line not in told:
                told.add(cut.line)
                yield Derivative(node, met, cut, points)
            elif made > scene.began and cut.line not in told and (missed := terms.missed(node, asked)):
                told.add(cut.line)
                yield Derivative(node, met, cut, missed=missed, beside=terms.beside(node, missed, cut))


class _Terms:
    """What the terms of a loss are computed from, where it has several."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        terms = summands(scene.graph)[1]
        self._inside = [{*below(scene.graph, [each.index])} for each in terms] if len(terms) > 1 else []

    def missed(self, node: int, asked: set[int]) -> tuple[Leaf, ...]:
        """Return those of some leaves, by id, that an optimizer holds and another term reaches, if the only term that
        has the node reaches none of them, but others."""
        inside = [each for each in self._inside if node in each]
        owned = [leaf for leaf in self._scene.graph.leaves if leaf.owner]
        reached = {id(leaf.tensor()) for leaf in owned if leaf.node in inside[0]} if len(inside) == 1 else set[int]()
        return tuple(leaf for leaf in owned if id(leaf.tensor()) in asked) if reached and not reached & asked else ()

    def beside(self, node: int, missed: Sequence[Leaf], but: Severed) -> Severed | None:
        """Return what else cuts what goes into a node off from leaves, by a detach."""
        inside, wanted = {*below(self._scene.graph, [node])}, {id(leaf.tensor()) for leaf in missed}
        for index, met in self._scene.met().items():
            for cut, leaves, made in met.cuts if index in inside else ():
                comes = any(id(ref()) in wanted for ref in leaves)
                if cut.by in ("detach", "data") and cut.line and cut != but and made > self._scene.began and comes:
                    return cut
        return None


def renewed(scene: Scene) -> Iterator[Renewed]:
    """Yield the terms of the loss that end in a leaf such as `torch.tensor(losses, requires_grad=True)`."""
    watch = current()
    if watch is None or not any(leaf.owner for leaf in scene.graph.leaves):
        return
    _, terms = summands(scene.graph)
    for term in terms:
        behind = leaves_below(scene.graph, term.index)
        tensor = behind[0].tensor() if len(behind) == 1 and not behind[0].owner else None
        cuts = watch.severed(tensor) if tensor is not None and behind[0].kind != "parameter" else ()
        if cuts and cuts[0].by == "rewrapped" and cuts[0].line is not None:
            yield Renewed(term.index, behind[0], cuts[0])


_SUMS = ("Add", "Sub")
_FACTORS = ("Mul", "Div", "Neg")


def summands(graph: Graph) -> tuple[set[int], list[Node]]:
    """Return the sums that a loss is made of, and what they are the sums of: nodes with or without a factor.

    What is subtracted further inside, and squared, is a target and no term.
    """
    sums, found = set(), []
    stack = [*graph.roots]
    for node in stack:  # grows as we go
        inputs = given(node)
        is_sum = node.op in _SUMS or (node.op in _FACTORS and len(inputs) == 1)
        if is_sum and node.shape == ():
            sums.add(node.index)
            stack += inputs
        else:
            found.append(node)
    return sums, found
