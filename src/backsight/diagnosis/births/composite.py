"""Reductions and losses over nothing, over one value, or over what is masked as a whole; decompositions."""

from __future__ import annotations

import math

from backsight.diagnosis.births.birth import Birth, has, numbers
from backsight.diagnosis.births.causes import Cause, cause, overflow
from backsight.diagnosis.births.elementary import times_zero


@cause("softmax", "log_softmax", "logsumexp", "scaled_dot_product_attention")
def of_scores(birth: Birth) -> Cause | None:
    """A row in which every score is -inf."""
    scores = birth.operand()
    infinite = birth.result if birth.backward and not scores.text else scores
    if infinite is None or not infinite.total_nonfinite:
        return overflow(birth)
    name = scores.text or "its input"
    if math.inf in scores.at:
        return Cause(f"{name} is inf there, and inf - inf is NaN", "Find where the infinite score comes from.")
    return Cause(
        f"{name} is -inf in a whole row, so nothing is left to choose from",
        "Leave one position of each row unmasked. Or mask with torch.finfo(scores.dtype).min instead of -inf, and "
        "set fully masked rows to 0 afterwards.",
    )


@cause("cross_entropy")
def of_classes(birth: Birth) -> Cause | None:
    """The mean over no targets."""
    if not birth.nan or birth.operand().total_nonfinite:
        return overflow(birth)
    return Cause(
        "every target is ignore_index, and the mean over no target is 0 / 0",
        'Skip such a batch, or divide by a count that is at least 1: F.cross_entropy(..., reduction="sum") / '
        "(target != ignore_index).sum().clamp_min(1).",
    )


@cause("std", "var", "std_mean", "var_mean")
def of_spread(birth: Birth) -> Cause | None:
    """The unbiased variance of one value."""
    given = birth.operand()
    if birth.result is not None and has(birth.result.at, 0.0):
        return Cause(
            f"all values are equal there, where {birth.op} has an infinite slope{times_zero(birth)}",
            f"Take the root of a variance that stays above 0: ({given.text or 'x'}.var(dim) + 1e-12).sqrt().",
        )
    if not birth.nan:
        return overflow(birth)
    shape = f"{given.text or 'its input'} has the shape {given.shape}"
    if 0 in given.shape:
        return Cause(f"{shape}: of no values there is none", "Skip it when nothing is left.")
    return Cause(
        f"{shape}, and one value has no spread: n - 1 is 0, and 0 / 0 is NaN",
        f"{birth.op}(..., correction=0), which is 0 for one value. Or skip groups with only one value.",
    )


@cause("mean", "nanmean", "median")
def of_nothing(birth: Birth) -> Cause | None:
    """The mean of no values."""
    given = birth.operand()
    if not birth.nan or 0 not in given.shape:
        return overflow(birth)
    text = given.text or "x"
    return Cause(
        f"{given.text or 'its input'} is empty, and the mean of no values is 0 / 0",
        f"Skip it when nothing is left; or {text}.sum() / max({text}.numel(), 1).",
    )


@cause("sub", "rsub", "add", "radd", "sum", "cumsum", "mul", "rmul", "matmul")
def of_infinities(birth: Birth) -> Cause | None:
    """inf - inf and 0 * inf: the infinity was there before."""
    infinite = next((each for each in birth.operands if each.total_nonfinite), None)
    if infinite is None or not birth.nan:
        return overflow(birth)
    law = "0 times infinity" if birth.op in ("mul", "rmul", "matmul") else "inf - inf"
    said = f"{infinite.text or 'an operand'} is {numbers(infinite.at)} there, and {law} is NaN"
    return Cause(said, "Find where the infinity comes from.")


@cause("checkpoint_function")
def of_checkpoint(birth: Birth) -> Cause | None:
    """A part that reentrant checkpointing computes again within the backward."""
    return Cause(
        "it arose in the part that a reentrant checkpoint recomputes, which backsight cannot watch",
        "Run it once with use_reentrant=False, or without the checkpoint, to see where.",
    )


@cause("linalg_eigh", "linalg_eig", "linalg_svd")
def of_spectrum(birth: Birth) -> Cause | None:
    """Equal eigenvalues: the gradient of their vectors divides by their difference."""
    if not birth.backward:
        return overflow(birth)
    return Cause(
        "two of its values are equal, and the gradient of their vectors divides by the difference",
        "If you only need the values, use torch.linalg.eigvalsh or svdvals, whose gradients are finite. Otherwise, "
        "make them differ by adding a small random diagonal.",
    )
