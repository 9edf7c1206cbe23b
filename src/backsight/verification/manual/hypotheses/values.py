"""Hypotheses about gradients of the right shape whose values are wrong in a simple way."""

from __future__ import annotations

import torch

from backsight.verification.manual.hypotheses.registry import hypothesis
from backsight.verification.manual.mistake import Mistake, Told, close
from backsight.verification.wording import number


@hypothesis("BS400", 2)
def not_finite(mistake: Mistake) -> Told | None:
    """NaN or infinity."""
    bad = ~torch.isfinite(mistake.given)
    if not bool(bad.any()) or not bool(torch.isfinite(mistake.right).all()):
        return None
    return Told(
        f"holds {int(bad.sum())} values that are NaN or infinite",
        "The right ones are finite: a division by zero, or exp of something large, stands in your formula.",
        "",
    )


@hypothesis("BS416", 2)
def zero(mistake: Mistake) -> Told | None:
    """All zero, as it was allocated."""
    if bool(mistake.given.any()):
        return None
    return Told("is all zero", "Nothing was written into it, or what was written was overwritten.", "")


@hypothesis("BS403", 2)
def negated(mistake: Mistake) -> Told | None:
    """The wrong sign."""
    if not mistake.becomes_right(torch.neg):
        return None
    return Told(
        "has the wrong sign",
        "Every entry is the right one with the other sign.",
        "Look for target - output where output - target is meant, or for a minus that got lost.",
    )


@hypothesis("BS404", 2)
def averaged(mistake: Mistake) -> Told | None:
    """A mean over the batch instead of the sum, or the other way round."""
    count = mistake.reference.samples
    if count > 1 and mistake.becomes_right(lambda g: g * count):
        return Told(
            "is a mean over the batch instead of the sum",
            f"Times {count}, the size of the batch, it is right. Where the loss is a mean, its factor 1/N is in "
            "grad_out already.",
            "Do not divide by the size of the batch here: sum.",
        )
    if count > 1 and mistake.becomes_right(lambda g: g / count):
        return Told(
            "is larger than right by the size of the batch",
            f"Divided by {count} it is right.",
            "Sum over the batch once; do not multiply by its size.",
        )
    return None


@hypothesis("BS404", 3)
def scaled(mistake: Mistake) -> Told | None:
    """A constant factor."""
    factor = float((mistake.given * mistake.right.conj()).sum().real / (mistake.right.abs() ** 2).sum())
    if factor == 0 or not close(mistake.given, factor * mistake.right, max(mistake.tolerance, 1e-6)):
        return None
    return Told(
        f"is {factor:.4g} times the right one",
        f"Every entry is: the largest is {_extreme(mistake.given)} and has to be {_extreme(mistake.right)}."
        + _origin(mistake, factor),
        f"Divide it by {factor:.4g}.",
    )


def _origin(mistake: Mistake, factor: float) -> str:
    """Where a factor may come from: a size of the tensors that are about."""
    output = mistake.reference.output
    sizes = {"the number of entries of the output": output.numel(), "the number of outputs": output.shape[-1:].numel()}
    for name, size in sizes.items():
        if size > 1 and any(abs(factor * f - 1) < 1e-4 for f in (size, 1 / size)):
            return f" {size} is {name}."
    return " The derivative of a square has a factor 2." if abs(factor * 2 - 1) < 1e-4 else ""


@hypothesis("BS407", 2)
def of_another(mistake: Mistake) -> Told | None:
    """The gradient of another parameter or input."""
    for name, other in mistake.others.items():
        if mistake.is_given(other):
            return Told(f"is the {name}", f"It is right as the {name}.", "Exchange the two.")
    return None


@hypothesis("BS401", 2)
def without_grad_out(mistake: Mistake) -> Told | None:
    """The gradient for a grad_out of ones."""
    ones = torch.ones_like(mistake.reference.grad_out)
    if close(mistake.reference.grad_out, ones, 1e-9) or not mistake.is_given(mistake.would_be(ones)):
        return None
    return Told(
        "ignores grad_out",
        "It is what a grad_out of ones would give: the derivative of the sum of the outputs, not of the loss.",
        "Multiply by the error signal: the chain rule.",
    )


@hypothesis("BS406", 2)
def of_one_sample(mistake: Mistake) -> Told | None:
    """The gradient of one sample of the batch: overwritten in a loop instead of added."""
    grad_out = mistake.reference.grad_out
    count = mistake.reference.samples
    for sample in (count - 1, 0) if count > 1 else ():
        alone = torch.zeros_like(grad_out)
        alone[sample] = grad_out[sample]
        if mistake.is_given(mistake.would_be(alone)):
            which = "first" if sample == 0 else "last"
            return Told(
                f"is that of the {which} sample alone",
                f"The batch has {count} samples, and each adds its part.",
                "In a loop over samples write += instead of =; without a loop, sum over the batch.",
            )
    return None


def _extreme(tensor: torch.Tensor) -> str:
    flat = tensor.flatten()
    return number(flat[flat.abs().argmax()])
