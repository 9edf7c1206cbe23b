"""One step of a layer is differentiated wrongly: the same table of mistakes that `verify` tries."""

from __future__ import annotations

from backsight.verification.manual.mistake import Mistake, Told
from backsight.verification.steps import found

FEWEST = 4
"""Of fewer entries many a mistake is the right one by chance: there is one grad_out, where `verify` draws two."""


def wrong_step(mistake: Mistake) -> tuple[str, Told] | None:
    """Return the code and the words of a mistake in one step; None where none explains the gradient."""
    if mistake.given.shape != mistake.right.shape or mistake.given.numel() < FEWEST:
        return None
    reference = mistake.reference
    try:
        step = found(
            lambda x: [reference.output_with(mistake.name, x)],
            reference.value_of(mistake.name),
            [[reference.grad_out]],
            [mistake.given],
            lambda _, gradient: mistake.is_given(gradient),
        )
    except Exception:  # a layer that does not run like this
        return None
    return None if step is None else (step.alteration.code, Told(*step.told(mistake.parameter)))
