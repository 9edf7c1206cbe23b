"""What to write instead, for errors of PyTorch whose message has no variable: read from the statement that failed."""

from __future__ import annotations

from backsight.diagnosis.errors.remedies import (  # noqa: F401  # each enters its own
    attributes,
    dtypes,
    elsewhere,
    given,
    lazy,
    modules,
    old_style,
    optimizers,
    tensors,
    transforms,
)
from backsight.diagnosis.errors.remedies.remedy import REMEDIES, Remedy
from backsight.diagnosis.evidence.refused import Refusal

__all__ = ["Remedy", "remedy_of"]


def remedy_of(found: Refusal) -> Remedy | None:
    """Return what to do about an error, where the program's text shows it; else None."""
    for pattern, function in REMEDIES:
        if (match := pattern.search(found.failure.message)) and (told := function(found, match)) is not None:
            return told
    return None
