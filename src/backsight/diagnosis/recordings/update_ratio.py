"""BS306, BS307: weights that get a gradient and never move; updates far too large or too small for their weights."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from backsight.diagnosis.causes import NOTHING_ARRIVES
from backsight.diagnosis.finding import Finding, Severity
from backsight.diagnosis.recordings.recording import Recording
from backsight.diagnosis.recordings.registry import rule
from backsight.diagnosis.recordings.rows import STEADY, Rows
from backsight.diagnosis.wording import counted, listed, warning
from backsight.tracing.moves import NEGLIGIBLE

USUAL = "between 1e-4 and 1e-2"
LARGE = 1e-1
HUGE = 0.5
SMALL = 1e-6

_Ratio = tuple[float, str]


@rule("BS307")
def update_ratio(recording: Recording) -> Iterator[Finding]:
    """The norm of the update over the norm of the weight, median over the steps; needs the tap "update".

    A decade above the usual range is a note, and so are two decades below it: small updates may be meant, as at the end
    of a schedule. Updates of half the weight are a warning. Biases and other vectors are left out: many begin at 0.
    """
    ratios = sorted(_ratios(recording))
    large = [ratio for ratio in ratios if ratio[0] > LARGE][::-1]
    small = [ratio for ratio in ratios if ratio[0] < SMALL]
    if large:
        severity: Severity = "warning" if large[0][0] > HUGE else "note"
        yield _finding(severity, "large", large, len(ratios), "Lower the learning rate, or warm it up.")
    if small:
        fix = "Raise the learning rate, or find out why the gradients are so small. Nothing to do at the end of a run."
        yield _finding("note", "small", small, len(ratios), fix)


def _finding(severity: Severity, what: str, found: list[_Ratio], of: int, fix: str) -> Finding:
    shown = ", ".join(f"{name} {ratio:.2g}" for ratio, name in found[:4])
    more = f" and {len(found) - 4} more" if len(found) > 4 else ""
    return Finding(
        "BS307",
        severity,
        f"Updates are very {what} for {len(found)} of {of} weight {'matrix' if of == 1 else 'matrices'}.",
        (f"Update norm / weight norm, median over the steps (usually {USUAL}): {shown}{more}.",),
        fix,
    )


def _ratios(recording: Recording) -> Iterator[_Ratio]:
    weights = recording.rows("weight")
    for name, update in recording.rows("update").items():
        weight = weights.get(name)
        if weight is not None and weight.is_matrix and (ratio := _median(weight, update.last_calls)) is not None:
            yield ratio, name


def _median(weight: Rows, update: Rows) -> float | None:
    """Return the median over the steps in which there was an update and a weight to be updated."""
    _, at_weight, at_update = np.intersect1d(weight["step"], update["step"], return_indices=True)
    held, moved = weight["l2"][at_weight], update["l2"][at_update]
    known = (held > 0) & (moved > 0) & np.isfinite(held) & np.isfinite(moved)
    return float(np.median(moved[known] / held[known])) if known.sum() >= STEADY else None


RESOLUTION = 2.0**-23
"""A gradient so small, as a part of the weight, moves nothing by itself: the model has converged."""


@rule("BS306")
def never_moves(recording: Recording) -> Iterator[Finding]:
    """Its statistics are the same to the last bit in all of ten or more steps.

    With a gradient worth the name that is a warning. Without one it is only a note, as unused heads are common; and of
    frozen weights nothing is said.
    """
    still = [rows for rows in recording.rows("weight").values() if _is_still(rows)]
    if not still:
        return
    pulls = {name: _pull(rows) for name, rows in recording.rows("grad").items()}
    enough = NEGLIGIBLE * max(pulls.values(), default=0.0)
    pulled = [rows for rows in still if pulls.get(rows.tensor.name, 0.0) > max(enough, RESOLUTION * rows["l2"][-1])]
    if pulled:
        yield _of_pulled(recording, pulled, pulls)
    idle = [rows for rows in still if rows not in pulled and recording.module(rows).trains.get(rows.tensor.name)]
    taken_off = [rows for rows in idle if _is_taken_off(recording, rows)]
    idle = _untold(recording, [rows for rows in idle if rows not in taken_off])
    if taken_off and pulls:
        yield _of_taken_off(taken_off)
    if idle and pulls:
        yield _of_idle(recording, idle, pulls)


def _untold(recording: Recording, idle: list[Rows]) -> list[Rows]:
    """Return those of which the program's run has not told that nothing arrives, which it knows more of.

    It names some of many, and says how many more there are.
    """
    facts = [str(each) for found in recording.found if found.code in NOTHING_ARRIVES for each in found.evidence]
    before = r"(?<!\w)" if len({module.root for module in recording.modules.values()}) == 1 else r"(?<![\w.])"
    for fact in facts:
        rest = [rows for rows in idle if not re.search(rf"{before}{re.escape(rows.tensor.name)}(?!\w|\.\w)", fact)]
        more = re.search(r"\band (\d[\d,]*) more\b", fact)
        if len(rest) < len(idle):
            idle = [] if more and len(rest) <= int(more[1].replace(",", "")) else rest
    return idle


_SUBTRACTS = re.compile(r"(Batch|Instance)Norm")
"""Modules that subtract the mean of each channel, and with it what a bias has added."""


def _is_taken_off(recording: Recording, rows: Rows) -> bool:
    """Whether it is a bias, and the next module of the forward pass subtracts it again."""
    called = [each for name in recording.order if (each := recording.modules.get(name)) and each.is_leaf]
    owners = [each.name for each in called]
    if not rows.tensor.name.endswith("bias") or rows.tensor.module not in owners:
        return False
    after = called[owners.index(rows.tensor.module) + 1 :]
    return bool(after) and _SUBTRACTS.search(after[0].type) is not None


def _of_taken_off(biases: list[Rows]) -> Finding:
    one = len(biases) == 1
    return Finding(
        "BS306",
        "note",
        f"{'A bias' if one else f'{len(biases)} biases'} before a normalization {'has' if one else 'have'} no effect.",
        (
            f"{listed([rows.tensor.name for rows in biases], 4)}: the normalization subtracts the mean, and with it "
            f"the bias, whose gradient is only rounding.",
        ),
        f"Leave {'it' if one else 'them'} out, with bias=False.",
    )


def _of_pulled(recording: Recording, pulled: list[Rows], pulls: dict[str, float]) -> Finding:
    name, them = pulled[0].tensor.name, "it" if len(pulled) == 1 else "them"
    steps = counted(max(len(np.unique(rows["step"])) for rows in pulled), "step")
    many = f"{_some(recording, pulled)} get gradients but never move."
    held, fix = _held(recording, pulled, them)
    return warning(
        "BS306",
        f"{name} gets gradients but never moves." if len(pulled) == 1 else many,
        (
            f"{listed([rows.tensor.name for rows in pulled], 4)}: bit-identical in {steps}.",
            f"Gradient norm of {name}, median of these steps: {pulls[name]:.2g}.",
            *([held] if held else []),
        ),
        fix,
    )


def _of_idle(recording: Recording, idle: list[Rows], pulls: dict[str, float]) -> Finding:
    names = [rows.tensor.name for rows in idle]
    found = f"{listed(names, 4)}: the gradient was 0, almost 0, or missing."
    fix = "Nothing to do if they are unused. Otherwise, check whether the loss depends on them."
    if all(pulls.get(name, 0.0) > 0 for name in names):
        strongest = max(names, key=lambda name: pulls[name])
        found = (
            f"{listed(names, 4)}: the largest gradient norm, of {strongest}, is {pulls[strongest]:.2g} in the median."
        )
        fix = (
            "The loss does depend on them. If gradients vanish on the way (BS302), fix that; otherwise, check the "
            "scale of the loss."
        )
    return Finding("BS306", "note", f"{_some(recording, idle)} never moved and got almost no gradient.", (found,), fix)


def _some(recording: Recording, rows: list[Rows]) -> str:
    return f"{len(rows)} of {counted(len(recording.rows('weight')), 'weight')}"


def _held(recording: Recording, pulled: list[Rows], them: str) -> tuple[str, str]:
    """Say whether an optimizer holds them, as far as its state tells, and what to do."""
    states = [tensor.name for tensor in recording.kinds.get("state", ())]
    held = [rows for rows in pulled if any(name.startswith(f"{rows.tensor.name}.") for name in states)]
    rate = (
        "check that the learning rate is not 0 and that updates are not lost to rounding, as small ones are in bfloat16"
    )
    put = f"Put {them} into the optimizer, or freeze {them} with requires_grad_(False)"
    if not states:
        return "", f"{put}; if the optimizer holds {them}, {rate}."
    if not held:
        return f"The optimizer has no state for {them}, so it probably does not hold {them}.", f"{put}."
    which = them if len(held) == len(pulled) else f"{len(held)} of them"
    return f"The optimizer has state for {which}.", f"{rate[0].upper()}{rate[1:]}."


def _is_still(rows: Rows) -> bool:
    if len(np.unique(rows["step"])) < STEADY or (rows["nans"] + rows["infs"]).any():
        return False
    return all((rows[name] == rows[name][0]).all() for name in ("mean", "m2", "min", "max", "zeros"))


def _pull(rows: Rows) -> float:
    """Return the median norm of a gradient over the steps, 0 if it was other than 0 in too few of them.

    Of several calls in a step it is the smallest: another model's loss may have left a gradient here that no optimizer
    used, as a generator's does in its discriminator.
    """
    starts = np.flatnonzero(np.append(True, np.diff(rows["step"]) > 0))
    norms = np.minimum.reduceat(rows["l2"], starts)
    return float(np.median(norms[norms > 0])) if (norms > 0).sum() >= STEADY else 0.0
