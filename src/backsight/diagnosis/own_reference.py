"""BS151: a model is compared with itself, as what should be its frozen reference is the model that is trained."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch

from backsight.diagnosis.evidence.holders import below
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.constant_ratio import is_raised
from backsight.diagnosis.wording import listed, shown, warning
from backsight.findings.evidence import Fact
from backsight.naming import search
from backsight.tape import Graph, parameters_in
from backsight.tracing import Met, Watch, met

CODES = ("BS151",)

_WITHOUT_GRADIENTS = ("no_grad", "inference")


@dataclass(frozen=True)
class Compared:
    """A difference of two results of the same parameters, of which one was computed without gradients."""

    met: Met
    leaves: tuple[torch.Tensor, ...]


def compared(graph: Graph, watch: Watch) -> Compared | None:
    """Return the first difference of a graph whose two sides had the same values, and come of the same parameters.

    A ratio of probabilities is rightly 1 where each rollout is used for one update: so exp of a difference is none.
    """
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
    facts: list[Fact] = [
        shown(line.place, "subtracts two results of the same parameters, so the difference is exactly 0."),
        f"The loss was exactly {loss:.6g} in each of the {steps} steps that were audited.",
    ]
    if len(short) > 1:
        facts.append(f"{listed(short, 3)} are the same object.")
    name = short[0] if short else "model"
    return warning(
        "BS151",
        f"The loss never changes: {both} are computed by the same model, which is its own reference.",
        facts,
        f"Make a frozen copy before training, reference = copy.deepcopy({name}).requires_grad_(False), and compute "
        f"{f'`{other}`' if other else 'the reference side'} with that.",
        line.place,
    )
