"""Reentrant checkpointing records nothing when none of its inputs requires grad, whatever the parameters inside do."""

from __future__ import annotations

from backsight.diagnosis.errors.no_grad.scene import Scene
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import shown
from backsight.naming.plain import namespace
from backsight.source import Place
from backsight.source.body import callee, is_constant, keyword
from backsight.story.sections import sections
from backsight.tape import modules_in

CODE = "BS203"
_SILENT = "use_reentrant=True records nothing where no input of the checkpointed function requires grad, as here."


def reentrant(scene: Scene) -> Finding | None:
    """The result came through a reentrant checkpoint whose inputs are plain data."""
    place = _call(scene)
    model = None if place else _checkpointing_model(scene)
    if place is None and model is None:
        return None
    user = scene.failure.user
    where = shown(place, "computes it.") if place else f"{model}.gradient_checkpointing is on."
    enable = f"{model}.gradient_checkpointing_enable(gradient_checkpointing_kwargs={{'use_reentrant': False}})"
    of_model = f"Call {enable}, or {model}.enable_input_require_grads()."
    return Finding(
        CODE,
        "error",
        scene.title("it came through a checkpoint to which nothing that requires grad was given"),
        (where, _SILENT, *((shown(user.place, "finds nothing to go back through."),) if user else ())),
        "Pass use_reentrant=False to checkpoint." if place else of_model,
        source=str(place) if place else scene.failure.source,
        exact=_is_seen(scene),
    )


def _is_seen(scene: Scene) -> bool:
    """Whether a watch has seen gradients switched off by no block of the program's: checkpoint does it by itself."""
    return bool(scene.seen) and scene.seen[0].cut.kind == "no_grad" and not scene.seen[0].inside


def _call(scene: Scene) -> Place | None:
    for section in sections(scene.failure):
        for call, place in section.calls():
            is_checkpoint = callee(call)[1] in ("checkpoint", "checkpoint_sequential")
            if is_checkpoint and not is_constant(keyword(call, "use_reentrant"), False):
                return place
    return None


def _checkpointing_model(scene: Scene) -> str | None:
    """A model of the transformers library that checkpoints its layers."""
    for name, module in scene.sources.modules.items():
        if any((namespace(each) or {}).get("gradient_checkpointing") is True for _, each in modules_in(module)):
            return name
    return None
