"""BS218: a gradient arrives on another stream than its parameter's, whose node an old graph has kept alive."""

from __future__ import annotations

import re

from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import counted, failing, listed, shaped
from backsight.findings.evidence import Fact
from backsight.snapshot import survey
from backsight.story.failure import Failure
from backsight.story.holders import results_held, structure
from backsight.tape import Graph


@explains(
    "BS218", r"AccumulateGrad node's stream does not match the stream of the node that produced", severity="warning"
)
def kept_alive(failure: Failure, match: re.Match[str]) -> Finding:
    """Name the variables that still hold results of earlier graphs over the same parameters."""
    held = _held(failure)
    names = list(dict.fromkeys(name for name, _, _ in held))
    lines: list[Fact] = [
        f"{name}, of shape {shaped(shape)}, holds a graph of {counted(nodes, 'operation')} over the same leaves."
        for name, nodes, shape in held[:3]
    ]
    lines += failing(failure, "runs the backward in which the streams differ.")
    who = f"{listed(names, 3)} still {'holds an' if len(names) == 1 else 'hold'} earlier graph{'s' * (len(names) != 1)}"
    return explanation(
        f"{who if names else _NOBODY}, and its AccumulateGrad nodes were created on another stream.",
        (*lines, "A parameter has one such node as long as any graph uses it, so each new graph shares the old node."),
        f"{_let_go(names) if names else _CAPTURED} With DistributedDataParallel, wrap the model on the stream that "
        "trains it.",
        source=failure.source,
        exact=False,
    )


_NOBODY = "An earlier graph is still alive that no variable of the program holds"
_CAPTURED = (
    "If a captured CUDA graph holds it, as that of torch.cuda.make_graphed_callables, it has to; silence the warning "
    "with torch.autograd.graph.set_warn_on_accumulate_grad_stream_mismatch(False)."
)


def _let_go(names: list[str]) -> str:
    return f"Let go of {listed(names, 3)} before the next forward pass: keep {names[0]}.detach(), or del it."


def _held(failure: Failure) -> list[tuple[str, int, tuple[int, ...]]]:
    """The results of other graphs over the same leaves: name, operations, shape; the largest graph first."""
    if not failure.roots:
        return []
    graph = survey(failure.roots, frames=failure.frames).graph
    leaves = _leaves(graph)
    found = []
    for tensor, name in results_held(failure.frames):
        other = structure(tensor)
        if leaves & _leaves(other) and not graph.shared(other):  # nothing but the leaves: another graph
            found.append((name.path, len(other) - len(other.leaves), tuple(tensor.shape)))
    return sorted(found, key=lambda each: -each[1])


def _leaves(graph: Graph) -> set[int]:
    return {id(leaf.tensor()) for leaf in graph.leaves if leaf.tensor() is not None}
