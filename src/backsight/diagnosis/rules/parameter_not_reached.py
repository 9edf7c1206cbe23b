"""BS102: an optimizer holds parameters that this loss does not depend on."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.scene import Scene
from backsight.tracing.steps import parameters


@rule("BS102")
def parameter_not_reached(scene: Scene) -> Iterator[Finding]:
    """An optimizer some of whose parameters are leaves of the loss also holds trainable ones that are not."""
    reached = {id(leaf.tensor()) for leaf in scene.graph.leaves}
    if any(t.kind == "checkpoint" for t in scene.graph.types):
        return  # reentrant checkpointing hides what runs inside of it: the graph cannot tell
    for name, optimizer in scene.optimizers.items():
        trained = [p for p in parameters(optimizer) if p.requires_grad]
        missing = [p for p in trained if id(p) not in reached]
        if missing and len(missing) < len(trained):  # an optimizer with none reached serves another loss
            yield _finding(scene, name, missing, len(trained))


def _finding(scene: Scene, optimizer: str, missing: list[torch.Tensor], total: int) -> Finding:
    names = [scene.parameter_name(p) for p in missing]
    shown = ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
    one = len(missing) == 1
    return Finding(
        "BS102",
        "warning",
        f"{len(missing)} of the {total} parameters in {optimizer} {'does' if one else 'do'} not take part in this loss.",
        (f"No path leads from the loss to {shown}.", *_why(scene, missing)),
        "Look between the module's output and the loss for .detach(), .data, .item(), torch.no_grad() or an unused "
        "result. If the module is not meant to train here, set requires_grad_(False) or leave it out of the optimizer.",
    )


def _why(scene: Scene, missing: list[torch.Tensor]) -> Iterator[str]:
    """Say what the graph alone shows of the reason."""
    lost = {id(p) for p in missing}
    for model in scene.models.values():
        order = [(path, id(p) in lost) for path, p in torch.nn.Module.named_parameters(model) if p.requires_grad]
        state = dict.fromkeys(path.rpartition(".")[0] for path, _ in order)
        for module in state:
            flags = [is_lost for path, is_lost in order if path.rpartition(".")[0] == module]
            state[module] = "lost" if all(flags) else "reached" if not any(flags) else "partly"
        whole = [m for m, s in state.items() if s == "lost"]
        following = _reached_after(list(state.items()))
        if whole and following:
            yield (
                f"{following[0] or 'A module'} takes no part while {following[1] or 'a module'}, defined after it, "
                "does: the chain is cut between them, or the first one's result is not used."
            )
        elif whole:
            yield f"Nothing of {', '.join(whole[:4])} takes part: its result is cut off, or not used."
    with_grad = sum(p.grad is not None for p in missing)
    if with_grad:
        yield f"{with_grad} of them have a gradient already, from another loss or an earlier step."


def _reached_after(states: list[tuple[str, str | None]]) -> tuple[str, str] | None:
    for (a, state), (b, following) in zip(states, states[1:], strict=False):
        if state == "lost" and following == "reached":
            return a, b
    return None
