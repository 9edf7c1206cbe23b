"""BS102: an optimizer holds parameters that this loss does not depend on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from backsight.diagnosis.evidence.creation import put_in_place
from backsight.diagnosis.evidence.severed import no_path, of_other_losses, severance
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.scene import Scene, rule
from backsight.diagnosis.wording import shown, warning
from backsight.source import Place, read_at
from backsight.source.bindings import assigned
from backsight.source.body import dotted
from backsight.tracing.steps import parameters


@rule("BS102")
def parameter_not_reached(scene: Scene) -> Iterator[Finding]:
    """An optimizer some of whose parameters are leaves of the loss also holds trainable ones that are not.

    A model may well have parts that a step does not use: experts, dropped layers, the head of another task, a pooler
    that nobody asked for. So this is a note, unless it shows that what they compute is cut off from the loss, or the
    caller has given optimizers to go with the loss, and it reaches nothing of them.
    """
    if scene.is_checkpointed:
        return
    reached = scene.reached()
    involved = scene.involved()
    in_vain = scene.chosen and not involved
    for name, optimizer in (scene.optimizers if in_vain else involved).items():
        trained = [p for p in parameters(optimizer) if p.requires_grad]
        missing = [p for p in trained if id(p) not in reached]
        if not missing or not (in_vain or len(missing) < len(trained)):  # with none reached, it serves another loss
            continue
        left = [] if in_vain else _left_behind(scene, missing)
        replaced = _replaced(scene) if left else {}
        if replaced:
            yield _of_no_module(name, left, replaced, len(trained))
            missing = [p for p in missing if all(p is not each for each in left)]
        if missing:
            yield _finding(scene, name, missing, len(trained))


def _left_behind(scene: Scene, missing: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return the parameters that nothing but an optimizer holds anymore."""
    return [p for p, path in zip(missing, scene.names(missing), strict=True) if ".param_groups[" in path]


def _replaced(scene: Scene) -> dict[str, Place]:
    """Return the parameters of this loss, or the modules around them, that statements have replaced, with these."""
    put = dict.fromkeys(put_in_place(scene, leaf) for leaf in scene.graph.leaves if leaf.kind == "parameter")
    own = [(place, path) for place, path in put if place is not None and _assigns(place, path)]
    places = [place for place, _ in own]
    return {path: place for place, path in own if places.count(place) == 1}  # `layer.weight = ...` may be any


def _assigns(place: Place, path: str) -> bool:
    """Whether a statement assigns what has this path, whatever it calls the object: `self.head.weight`."""
    names = [dotted(target) or "" for target, _ in assigned(read_at(place)[1])]
    return any(path.endswith(f".{name.partition('.')[2]}") for name in names if "." in name)


def _of_no_module(optimizer: str, left: Sequence[torch.Tensor], replaced: dict[str, Place], total: int) -> Finding:
    them, they, their = ("it", "it", "its") if len(left) == 1 else ("them", "they", "their")
    return Finding(
        "BS102",
        "note",
        f"{optimizer} holds parameters that belong to no module anymore.",
        (
            f"Only {optimizer} still holds {len(left)} of its {total} trainable parameters.",
            *(shown(place, f"replaces {path}.") for path, place in replaced.items()),
        ),
        f"Create {optimizer} again after each replacement to drop {them}. Until then, {they} and {their} state take "
        "memory.",
    )


def _finding(scene: Scene, optimizer: str, missing: Sequence[torch.Tensor], total: int) -> Finding:
    if (found := severance(scene, optimizer, missing, total)) is not None:
        wanted = "if they should learn from this loss. Otherwise, freeze them with requires_grad_(False) and leave them"
        return warning(
            "BS102",
            f"{optimizer} holds parameters that are detached from this loss.",
            found.evidence,
            f"{found.fix}." if found.is_sure else f"{found.fix}, {wanted} out of the optimizer.",
            found.place,
        )
    evidence = no_path(scene.names(missing), total)
    if len(missing) == total:
        return warning(
            "BS102",
            f"{optimizer} learns nothing from this loss.",
            (evidence,),
            "Look between their output and the loss for .detach(), .data, .item(), torch.no_grad(), or an unused "
            "result. Or pass audit() the optimizer that belongs to this loss.",
        )
    other = of_other_losses(scene.optimizers[optimizer], missing)
    have = "It has" if len(missing) == 1 else f"{other} of them have"
    return Finding(
        "BS102",
        "note",
        f"{optimizer} holds parameters that this loss does not depend on.",
        (evidence, *([f"{have} a gradient or took a step before, from another loss or batch."] if other else [])),
        "Nothing to do if this step should not use them. Otherwise, look between their output and the loss for "
        ".detach(), .data, .item(), torch.no_grad(), or an unused result.",
    )
