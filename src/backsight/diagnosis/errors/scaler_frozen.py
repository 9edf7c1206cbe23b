"""An optimizer whose parameters are all frozen, so that no backward gives them gradients."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from backsight.diagnosis.errors.scaler_calls import Misused
from backsight.diagnosis.evidence.exchanged import exchanged, told
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import listed, shown
from backsight.findings.evidence import Certainty, Fact
from backsight.naming import search
from backsight.source.freezing import freezing_of, freezings
from backsight.story.files import user_files
from backsight.story.memory import is_module
from backsight.tape import parameters_in


def frozen_in_optimizer(misused: Misused, trained: Sequence[str], title: str, asked: Sequence[Fact]) -> Finding:
    """Name what has frozen them, or given them in the place of what is to be trained; `trained` are the modules that
    have gradients."""
    argument = misused.argument
    held = owner_of(misused) or f"all that {argument} holds"
    title = f"{title[:-1]}: {held} is frozen."
    frozen = freezing_of([held], (each for file in user_files(misused.failure) for each in freezings(file)))
    certainty: Certainty | None = None if len(frozen) == 1 else "read"
    lines: list[Fact] = [shown(each, "sets requires_grad to False.", certainty) for each in frozen[:3]]
    lines += [f"{listed(trained, 3)} has gradients, but no optimizer holds its parameters."] if trained else []
    if (swap := exchanged(misused.failure, held)) is not None:
        evidence, fix = told(swap)
        return misused.told(title, swap.place, [*lines, *evidence, *asked], fix)
    fix = f"If {held} should be trained, do not freeze it: call {held}.requires_grad_(True) before the forward pass."
    if trained:
        fix += f" If it should not, {argument} needs the parameters of what should."
    else:
        fix += f" While it is frozen, leave {misused.name}.step({argument}) out."
    return misused.told(title, frozen[0] if len(frozen) == 1 else misused.asked, [*lines, *asked], fix, exact=False)


def owner_of(misused: Misused) -> str:
    """What the program calls the largest module all of whose parameters the optimizer holds; empty if there is none."""
    held = {id(each) for each in misused.parameters}
    found = search((), frames=misused.failure.frames, collect=(torch.nn.Module,)).found
    every = [(list(parameters_in(module)), name.path) for module, name in found if is_module(module)]
    owned = [(len(ps), path) for ps, path in every if ps and all(id(p) in held for p in ps)]
    return max(owned, key=lambda each: each[0], default=(0, ""))[1]
