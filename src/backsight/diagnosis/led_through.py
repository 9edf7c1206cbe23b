"""BS123: what a loss leaves in a network that it only leads through is used by that network's own optimizer."""

from __future__ import annotations

from collections.abc import Container, Sequence

import torch

from backsight.diagnosis.amending import given_keyword, is_known
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.program import named
from backsight.diagnosis.wording import counted, shown, warning
from backsight.source import Place
from backsight.source.edits import OR
from backsight.story.holders import given, users
from backsight.tape import Graph, Node

_LINEAR = frozenset({"Neg", "Mean", "Sum", "Add", "Sub", "Minimum", "Min", "View", "UnsafeView", "ReshapeAlias"})
_LINEAR |= frozenset({"Squeeze", "Unsqueeze", "Select", "Slice", "Index", "Stack", "Cat", "Unbind", "Expand"})
_TIMES_A_NUMBER = frozenset({"Mul", "Div"})


def leads_through(graph: Graph, ids: set[int]) -> bool:
    """Whether a loss is a sum of what the last layers of a network return, and all of it is computed from other leaves.

    ids: of the parameters of the network. Such a loss has no target: the network that returns it could make it as
    small as you like by its last bias alone. What else is added to it, an entropy, may not depend on the network.
    """
    ends, rest = _summed(graph, ids, _below(graph, ids, True))
    return bool(ends) and not rest and ends <= _below(graph, ids, False)


def has_target(graph: Graph, ids: set[int]) -> bool:
    """Whether a loss depends on a network, and nothing that its last layers return is only summed."""
    return not _summed(graph, ids, range(len(graph)))[0]


def _summed(graph: Graph, ids: set[int], own: Container[int]) -> tuple[set[int], bool]:
    """Return which last layers of a network a loss sums up, of the nodes `own`; and whether it depends on others."""
    ends, rest, waiting, seen = set[int](), False, [each.index for each in graph.roots], set[int]()
    while waiting:
        index = waiting.pop()
        if index in seen or index not in own:
            continue
        seen.add(index)
        node = graph.nodes[index]
        inputs = given(node)
        if any(_is_own(graph, each, ids) for each in inputs):
            ends.add(index)
        elif node.op in _LINEAR or (node.op in _TIMES_A_NUMBER and len(inputs) == 1):
            waiting += [each.index for each in inputs]
        else:
            rest = True
    return ends, rest


def _is_own(graph: Graph, node: Node, ids: set[int]) -> bool:
    """Whether a node stands for a parameter of the network, or its transpose."""
    if node.op in ("T", "Transpose") and len(given(node)) == 1:
        node = given(node)[0]
    leaf = graph.leaf_at.get(node.index)
    return leaf is not None and id(graph.leaves[leaf].tensor()) in ids


def _below(graph: Graph, ids: set[int], own: bool) -> set[int]:
    """Return the nodes that depend on a parameter of the network, or else on one that some optimizer or model owns."""
    start = {each.node for each in graph.leaves if (id(each.tensor()) in ids) is own and (own or each.owner)}
    using, found, waiting = users(graph), set(start), list(start)
    while waiting:
        new = [each.index for each in using.get(waiting.pop(), ()) if each.index not in found]
        found.update(new)
        waiting += new
    return found


def led_through(
    of: torch.optim.Optimizer, other: torch.optim.Optimizer, held: Sequence[torch.Tensor], first: Place, then: Place
) -> Finding:
    """Return the finding that the step of one optimizer also uses what the loss of another one has left."""
    name, its = named(of, "the optimizer"), named(other, "the other optimizer")
    return warning(
        "BS123",
        f"{name}.step() also uses gradients left by another loss.",
        (
            shown(first, f"computes the gradients of {counted(len(held), 'parameter')} of {name}."),
            shown(then, f"runs for {its}.step() and adds its own gradients to them: its loss has no target for them."),
        ),
        f"Call {name}.step() before `{then.text}`, and compute that loss after it; {OR}or pass inputs= with the "
        f"parameters of {its} to that backward{_for_inputs(then, its)}.",
        then,
    )


def _for_inputs(then: Place, optimizer: str) -> str:
    """Have a backward add to the gradients of what an optimizer holds, and to no other."""
    held = f"[p for group in {optimizer}.param_groups for p in group['params']]"
    return given_keyword(then, "backward", "inputs", held) if is_known(held, then) else ""
