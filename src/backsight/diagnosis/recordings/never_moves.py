"""BS306: a weight gets a gradient and never moves."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from backsight.diagnosis.finding import Finding
from backsight.diagnosis.recordings.recording import Recording
from backsight.diagnosis.recordings.registry import rule
from backsight.diagnosis.recordings.rows import STEADY, Rows
from backsight.diagnosis.wording import counted, listed


@rule("BS306")
def never_moves(recording: Recording) -> Iterator[Finding]:
    """Its statistics are the same to the last bit in all of ten or more steps.

    With a gradient that is not zero that is a warning. Without one it is only a note, as unused heads are common; and of
    frozen weights nothing is said.
    """
    weights = recording.rows("weight")
    still = [rows for rows in weights.values() if _is_still(rows)]
    pulled = [rows for rows in still if _is_pulled(recording, rows)]
    if pulled:
        yield _of_pulled(recording, pulled, len(weights))
    idle = [rows for rows in still if _is_idle(recording, rows)]
    if idle:
        yield Finding(
            "BS306",
            "note",
            f"{len(idle)} of the {counted(len(weights), 'weight')} never moved and got no gradient.",
            (f"{listed([rows.tensor.name for rows in idle], 4)}: no gradient other than 0 was recorded in any step.",),
            "Nothing to do if they are not in use; else see whether the loss depends on them.",
        )


def _of_pulled(recording: Recording, pulled: list[Rows], of: int) -> Finding:
    one = len(pulled) == 1
    steps = max(len(np.unique(rows["step"])) for rows in pulled)
    stepped = [rows for rows in pulled if _is_stepped(recording, rows)]
    if stepped:
        known = (
            f"The optimizer holds {'it' if one else 'them' if len(stepped) == len(pulled) else len(stepped)}: it has "
        )
        known += "state for it." if one else "state for them."
    else:
        known = "No state of an optimizer was recorded for " + ("it." if one else "them.")
    title = f"{pulled[0].tensor.name} gets" if one else f"{len(pulled)} of the {counted(of, 'weight')} get"
    return Finding(
        "BS306",
        "warning",
        f"{title} gradients and never {'moves' if one else 'move'}.",
        (
            f"{listed([rows.tensor.name for rows in pulled], 4)}: the same to the last bit in {counted(steps, 'step')}.",
            known,
        ),
        "See that it is in the optimizer, that the learning rate is not 0, and that updates are not lost in rounding, as "
        "small ones are in bfloat16; or freeze it with requires_grad_(False).",
    )


def _is_still(rows: Rows) -> bool:
    if len(np.unique(rows["step"])) < STEADY or (rows["nans"] + rows["infs"]).any():
        return False
    return all((rows[name] == rows[name][0]).all() for name in ("mean", "m2", "min", "max", "zeros"))


def _is_pulled(recording: Recording, rows: Rows) -> bool:
    """Whether it got gradients in as many steps."""
    gradient = recording.rows("grad").get(rows.tensor.name)
    return gradient is not None and len(np.unique(gradient["step"][gradient["l2"] > 0])) >= STEADY


def _is_idle(recording: Recording, rows: Rows) -> bool:
    """Whether it could be trained, gradients were recorded, and none came."""
    gradient = recording.rows("grad").get(rows.tensor.name)
    trained = bool(recording.rows("grad")) and recording.module(rows).trains.get(rows.tensor.name, False)
    return trained and (gradient is None or not (gradient["l2"] > 0).any())


def _is_stepped(recording: Recording, rows: Rows) -> bool:
    """Whether an optimizer keeps a state for it."""
    prefix = f"{rows.tensor.name}."
    return any(tensor.name.startswith(prefix) for tensor in recording.kinds.get("state", ()))
