"""BS133: a weight is zero throughout, and frozen."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from backsight.diagnosis.evidence.values import is_zero
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.rules.registry import rule
from backsight.diagnosis.scene import Scene
from backsight.diagnosis.wording import if_known, warning
from backsight.source.freezing import freezings
from backsight.tape import modules_in, parameters_in, registered
from backsight.tape.saved import is_readable

_LAYERS = (torch.nn.Linear, torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)
"""Layers that multiply by their weight; what is added, as positions are, may well be zero."""

_FIRST = 64
"""Values that are looked at before all of them are."""


@rule("BS133")
def frozen_zeros(scene: Scene) -> Iterator[Finding]:
    """Layers that begin with zeros, such as the second half of an adapter, are there to be trained."""
    for model in scene.models.values():
        held = dict.fromkeys(parameters_in(model))
        if not any(p.requires_grad for p in held):
            continue
        layers = [module for _, module in modules_in(model) if isinstance(module, _LAYERS)]
        weights = {id(module): registered(module, "_parameters").get("weight") for module in layers}.values()
        zeros = [p for p in weights if isinstance(p, torch.Tensor) and not p.requires_grad and _are_zeros(p)]
        if zeros:
            yield _finding(scene, zeros)
            return


def _are_zeros(weight: torch.Tensor) -> bool:
    if not weight.numel() or not is_readable(weight) or weight.layout != torch.strided:
        return False
    with torch.no_grad():
        start = weight.detach()[(0,) * (weight.dim() - 1)][:_FIRST]
    return is_zero(start) is True and is_zero(weight) is True


def _finding(scene: Scene, zeros: list[torch.Tensor]) -> Finding:
    found = list(freezings(scene.site[0]))
    place = found[0].at if len(found) == 1 else None
    several = len(zeros) > 1
    return warning(
        "BS133",
        f"{scene.listed(zeros, 2)} {'are' if several else 'is'} all zeros and frozen: "
        f"{'their' if several else 'its'} output is zero and stays zero.",
        (if_known(place, "decides what is frozen."),),
        f"Call requires_grad_(True) on {'them' if several else 'it'} and pass {'them' if several else 'it'} to the "
        "optimizer; check the names that decide what is frozen.",
        place,
    )
