"""`Alteration`: a mistake in a step, with the words for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch

from backsight.verification.steps.step import Step


class Alteration(NamedTuple):
    """A mistake in one operand of a step, with the words for it.

    `title` follows on "returns the gradient of `x`", and says what is measured: with what the gradient comes out, and
    not what the author has written. In the words `{step}` is the step, and `{operand}` which of its operands, or its
    input where it has one; `{constant}` is "a constant", or "constants" of two steps. `words` makes more of them.
    """

    code: str
    alter: Callable[[Step, int], torch.Tensor | None]
    title: str
    evidence: str
    fix: str
    words: Callable[[Step, int], dict[str, str]] = lambda *_: {}


def on_one_way(alteration: Alteration) -> Alteration:
    """Say that a mistake is made on one of several ways back alone."""
    return alteration._replace(
        title=alteration.title + ", on the path through {way} alone",
        evidence="The gradient goes back from there along several paths; with this mistake on that path alone, the "
        "returned gradient is reproduced.",
    )
