"""BS217: backward with create_graph=True leaves gradients that hold the graph that made them."""

from __future__ import annotations

import re

from backsight.diagnosis.errors.registry import explains, explanation
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import counted, failing, listed
from backsight.findings.evidence import Fact
from backsight.snapshot import survey
from backsight.story.failure import Failure
from backsight.story.memory import needs_gradient


@explains("BS217", r"[Uu]sing backward\(\) with create_graph=True will create a reference cycle", severity="warning")
def gradient_cycle(failure: Failure, match: re.Match[str]) -> Finding:
    """Say which parameters are in the cycle, and how to have the gradients without it."""
    graph = survey(failure.roots, frames=failure.frames).graph if any(map(needs_gradient, failure.roots)) else None
    receiver = failure.user.receiver if failure.user else ""
    loss = receiver or next(iter(graph.root_names if graph else ()), "") or "loss"
    names = [leaf.name for leaf in graph.leaves if leaf.name] if graph else []
    puts = "stores gradients in .grad that have graphs of their own."
    lines: list[Fact] = [*failing(failure, puts)]
    of = names[0] if names else "a parameter"
    lines.append(
        f"{of} holds its gradient, the gradient holds its graph, and the graph holds {of}: none is freed until "
        f"{of}.grad is set to None."
    )
    if graph is not None:
        size = counted(len(graph) - len(graph.leaves), "operation")
        lines.append(f"That graph has {size}, plus those that compute the gradients.")
    wanted = f"[{listed(names, 3).replace(' and ', ', ')}]" if 0 < len(names) <= _FEW else "list(model.parameters())"
    return explanation(
        f"{loss}.backward(create_graph=True) creates a reference cycle: each .grad keeps the graph that computed it.",
        tuple(lines),
        f"Get the gradients as return values: gradients = torch.autograd.grad({loss}, {wanted}, create_graph=True). "
        "If you need them in .grad, set it to None as soon as you have used them.",
        source=failure.source,
        exact=graph is not None,
    )


_FEW = 3
