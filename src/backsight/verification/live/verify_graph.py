"""`verify_graph`: test every node of a live graph where it stands, without running anything again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from backsight.findings import SEVERITIES
from backsight.snapshot import graph
from backsight.surface import require
from backsight.tape import Graph, Models, Node, NothingToCapture, tensors_in
from backsight.tape.capture import root_edges
from backsight.tape.walk import walk
from backsight.verification.errors import raised
from backsight.verification.live.rules import judged
from backsight.verification.live.safety import harm_of, unchanged
from backsight.verification.live.trial import NotTried, attempt
from backsight.verification.probes import Generators
from backsight.verification.report import Checked, Skipped, Verification, WrongGradient

HOW = "called four times: linear, deterministic, modifies no input"


def verify_graph(*roots: Any, model: Models = None) -> Verification:
    """Test the backward of every node behind `roots`, without a rerun: just before `loss.backward()`.

    ```python
    loss = criterion(model(x), y)
    print(backsight.verify_graph(loss))
    loss.backward()
    ```

    Whatever an operation is, its backward must be linear in the gradient that arrives, return the same for the same,
    leave that gradient and what was saved as they are, and return shapes that fit. Each node is called with a few
    random gradients to see. That finds what ignores grad_output or adds to it; a wrong factor is linear too, and needs
    `backsight.verify`, which also runs the forward.

    `.grad` is not written, nothing is freed, no hook runs, and the random state stays. What cannot be called without
    doing harm is not, and the report says so: reentrant checkpoints, compiled regions, nodes whose saved tensors are
    packed by hooks, and communication.

    Args:
        roots: the loss, or several; what `backsight.graph` takes.
        model: the module, or modules by name, whose paths name nodes.

    Raises:
        NothingToCapture: if no root has a graph.
        Unavailable: if this PyTorch lacks something that is needed for it.
    """
    require("verify of recorded graphs")
    require("shapes of results")
    try:
        captured = graph(*roots, model=model, names=False)
    except NothingToCapture as error:
        said = str(error).replace("graph() ", "verify_graph() ").replace("backsight.graph(", "backsight.verify_graph(")
        raise NothingToCapture(said) from None
    live = walk([node for node, _ in root_edges(list(tensors_in(roots)))]).nodes
    tested = _Tested()
    with unchanged(_devices(captured)):
        generators = Generators()
        for node, one in zip(captured.nodes, live, strict=True):
            if node.kind != "leaf":
                tested.add(node, one, generators)
    found = tuple(_together(tested.findings))
    return Verification(found, tuple(tested.checked), tuple(tested.skipped), "node", verdict="linear and deterministic")


@dataclass
class _Tested:
    """What has been found so far."""

    findings: list[WrongGradient] = field(default_factory=list)
    checked: list[Checked] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)

    def add(self, node: Node, live: Any, generators: Generators) -> None:
        """Test one node, if it can be called without doing harm."""
        if harm := harm_of(node, live):
            self.skipped.append(Skipped(node.op, harm, node.source))
            return
        try:
            trial = attempt(node, live, generators)
            found = judged(trial)
        except NotTried as reason:
            self.skipped.append(Skipped(node.op, str(reason), node.source))
            return
        except Exception as error:  # one node that is unlike all others must not end the test of the rest
            self.skipped.append(Skipped(node.op, f"its test raised {raised(error)}", node.source))
            return
        self.findings += found
        right = all(finding.severity != "error" for finding in found)
        self.checked.append(Checked(trial.name, right, node.source, HOW))


def _devices(captured: Graph) -> list[torch.device]:
    return list({out.device for node in captured.nodes for out in node.outputs if out is not None})


def _together(findings: list[WrongGradient]) -> Iterator[WrongGradient]:
    """Yield the findings, the gravest first; those of one Function at several nodes once."""
    alike: dict[tuple[str, str, str], list[WrongGradient]] = {}
    for finding in findings:
        alike.setdefault((finding.code, finding.operation, finding.input), []).append(finding)
    for same in sorted(alike.values(), key=lambda same: SEVERITIES.index(same[0].severity)):
        first, more = same[0], len(same) - 1
        added = (f"The same at {more} more node{'s' * (more != 1)} of this graph.",) if more else ()
        yield replace(first, evidence=(*first.evidence, *added))
