"""Anomaly mode stopped a backward at a NaN: where this was born, or which operations of the loss may have done it."""

from __future__ import annotations

import re
from dataclasses import replace

import torch

from backsight.diagnosis.births import told
from backsight.diagnosis.errors.remedies import Remedy
from backsight.diagnosis.evidence.refused import Refusal
from backsight.diagnosis.evidence.singular import kept_away, may_be_infinite, singular
from backsight.diagnosis.finding import Finding
from backsight.diagnosis.wording import shown
from backsight.snapshot import survey
from backsight.story.failure import around_engine
from backsight.tracing import current

_MESSAGE = re.compile(r"Function '(?P<name>\w+?)(?:Backward)?\d*' returned nan values in its")


def born(found: Refusal) -> Finding | None:
    """Return the origin of the NaN at which anomaly mode stopped, if a watch has seen it."""
    match, watch = _MESSAGE.search(found.failure.message), current()
    origin = told(watch.nonfinite, watch.lost) if match and watch is not None else None
    if match is None or origin is None:
        return None
    stopped = shown(found.level.place, f"is where anomaly mode stopped, at the gradient of {match['name'].lower()}.")
    return replace(origin, evidence=(*origin.evidence, stopped))


def may_have_been_born(found: Refusal) -> Remedy | None:
    """Return the operations of the loss whose gradient may be infinite: infinity times 0 is NaN."""
    roots = tuple(each for each in around_engine(found.failure).roots if isinstance(each, torch.Tensor))
    if not _MESSAGE.search(found.failure.message) or not roots:
        return None
    every = singular(survey(roots, frames=found.failure.frames).graph)
    if not every:
        return None
    sure = "To be sure, run" if len(every) == 1 else "Run"
    return Remedy(
        f"{kept_away(every)}{sure} it with `backsight run --nonfinite`: it names the line that produces the first NaN.",
        tuple(shown(each.place, may_be_infinite(each)) for each in every),
        every[0].place if len(every) == 1 else None,
    )
