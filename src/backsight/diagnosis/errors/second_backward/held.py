"""A result from before the last optimizer step that a variable still holds, where only a running watch can tell."""

from __future__ import annotations

from backsight.diagnosis.errors.second_backward.case import Case
from backsight.diagnosis.evidence.holders import node_of, results_held
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import counted, listed, shaped, shown, were


def held_since_step(case: Case) -> Finding | None:
    """Variables hold the very results through which this loss reaches operations from before the last step."""
    if not case.joints:
        return None
    nodes = ((node_of(case.graph, tensor), tensor, name.path) for tensor, name in results_held(case.failure.frames))
    held = [(node, tensor, path) for node, tensor, path in nodes if node in case.joints]
    containers = {path.partition("[")[0] for _, _, path in held}
    if len(containers) != 1 or case.failure.user is None:
        return None
    name, several = containers.pop(), len(held) > 1
    is_part = held[0][2] != name
    what = (
        f"{name} still holds {counted(len(held), 'result')}"
        if is_part
        else f"{name}, a tensor of shape {shaped(held[0][1].shape)}, is a result"
    )
    return Finding(
        "BS201",
        "error",
        f"{what} from before the last optimizer step, and an earlier backward() has freed what computed "
        f"{'them' if several else 'it'}.",
        (
            shown(case.failure.user.place, f"goes back through {listed([path for _, _, path in held], 3)}."),
            f"{were(len(case.old), 'operations of this graph')} made before the last optimizer step, as the running "
            "watch has noted.",
        ),
        _fix(name, len({node for node, _, _ in held})),
        source=case.failure.source,
        exact={node for node, _, _ in held} >= set(case.joints),
    )


def _fix(name: str, made: int) -> str:
    if made > 1:  # one after the other, in a loop
        return f"Empty {name} after each optimizer step, {name}.clear(), or put results into it after .detach()."
    return (
        f"Compute what {name} holds anew in each step; if what computes it is not meant to be trained here, compute it "
        "once under torch.no_grad()."
    )
