"""BS405, BS406: a gradient that was derived by hand has a different shape than its input."""

from __future__ import annotations

from itertools import combinations

import torch

from backsight.tape.rows import dimensions
from backsight.verification.case import Case, Draw, Known
from backsight.verification.hypotheses.explanation import Explanation
from backsight.verification.wording import ADDED_UP

MOST_DIMENSIONS = 6


def wrong_shape(case: Case) -> Explanation | None:
    """Transposed, before a sum, with a dimension too many; or nothing that a shape explains."""
    if not case.misshapen:
        return None
    return _transposed(case) or _not_summed(case) or _reshaped(case) or _another(case)


def _transposed(case: Case) -> Explanation | None:
    got = case.draws[0].got
    if got.dim() < 2 or got.mT.shape != case.shape or not case.fits(lambda draw: draw.got.mT):
        return None
    return Explanation(
        f"{case.subject} returns the gradient of `{case.argument}` transposed.",
        (f"Transposed it is right. {_shapes(case)}",),
        "Swap the factors, or transpose the result.",
        code="BS405",
    )


def _not_summed(case: Case) -> Explanation | None:
    """The right values before a sum: over the batch, or over the places where a weight was used."""
    got = case.draws[0].got
    if got.dim() > MOST_DIMENSIONS or got.numel() <= case.shape.numel():
        return None
    for count in range(1, got.dim() + 1):
        for over in combinations(range(got.dim()), count):
            if case.fits(lambda draw, over=over: draw.got.sum(over)):  # type: ignore[misc]
                return _unsummed(case, over)
    return None


def _unsummed(case: Case, over: tuple[int, ...]) -> Explanation:
    got = case.draws[0].got
    batch = over == (0,) and got.shape[0] == case.output.shape[:1].numel()
    what = "the sum over the batch" if batch else f"a sum over {_dims(over)}"
    uses = dimensions([got.shape[k] for k in over])
    per = "one gradient for each sample" if batch else f"a gradient for each of {uses} uses"
    return Explanation(
        f"{case.subject} lacks {what} in the gradient of `{case.argument}`.",
        (f"{_shapes(case)[:-1]}: {per}. Summed over {_dims(over)} it is right.", ADDED_UP),
        f"Add .sum({over[0] if len(over) == 1 else over}).",
    )


def _reshaped(case: Case) -> Explanation | None:
    """The right values in a shape with other dimensions: (1, n) for n, or flat."""
    if not case.fits(lambda draw: draw.got):
        return None
    return Explanation(
        f"{case.subject} returns the gradient of `{case.argument}` in another shape.",
        (f"Its values are right. {_shapes(case)}",),
        f"Reshape it to {tuple(case.shape)}; a sum with keepdim=True keeps an extra dimension.",
    )


def _another(case: Case) -> Explanation:
    return Explanation(
        f"{case.subject} returns a gradient of the wrong shape for `{case.argument}`.",
        (f"{_shapes(case)} A gradient has one entry for each entry of its tensor.",),
        "",
    )


def _shapes(case: Case) -> str:
    got: torch.Tensor = case.draws[0].got
    return f"It has the shape {dimensions(got.shape)}, and `{case.argument}` has {dimensions(case.shape)}."


def _dims(over: tuple[int, ...]) -> str:
    *first, last = map(str, over)
    return f"dimensions {', '.join(first)} and {last}" if first else f"dimension {last}"


def of_one_sample(case: Case) -> Explanation | None:
    """The gradient is that of the first or the last sample alone."""
    count = case.output.shape[0] if case.single and case.output.dim() > 1 else 1
    if count < 2 or case.shape[:1] == case.output.shape[:1]:  # an input of the batch has a gradient for each
        return None
    for sample, which in ((count - 1, "last"), (0, "first")):
        if all(_is_alone(case, draw.u, draw.got, sample) for draw in case.draws):
            return Explanation(
                f"{case.subject} returns only the gradient of the {which} sample for `{case.argument}`.",
                (f"The batch has {count} samples, and each contributes.",),
                "In a loop over samples write += instead of =; without a loop, sum over the batch.",
            )
    return None


def _is_alone(case: Case, u: torch.Tensor, got: torch.Tensor, sample: int) -> bool:
    alone = torch.zeros_like(u)
    alone[sample] = u[sample]
    if Known.BACKWARD in case.known:  # the cheaper question first
        again = case.backward([alone])
        if again is None or not bool(case.equal(again, got).all()):
            return False
    return bool(case.equal(case.at(got), case.right_for([alone])).all())


FEWEST = 3
"""Of fewer entries along a dimension nothing remains to be compared."""


def shifted(case: Case) -> Explanation | None:
    """Every entry is the right one of its neighbor, up to the border; or that of the other end."""
    if case.positions.numel() != case.shape.numel():
        return None
    for dim, size in enumerate(case.shape):
        if size >= FEWEST and case.fits(lambda draw, dim=dim: draw.got.flip(dim)):  # type: ignore[misc]
            return Explanation(
                f"{case.subject} returns the gradient of `{case.argument}` in reverse order along dimension {dim}.",
                ("Reversed, every entry is right.",),
                f"Reverse it: `.flip({dim})`. A loop back through forward visits the last step first.",
            )
    for dim, size in enumerate(case.shape):
        for by in (1, -1):
            if size >= FEWEST and all(_is_shifted(case, draw, dim, by) for draw in case.draws):
                where = "before" if by < 0 else "behind"
                return Explanation(
                    f"{case.subject} returns the gradient of `{case.argument}` shifted by one along dimension {dim}.",
                    (f"Every entry is the right one for the entry {where} it.",),
                    "Check what is sliced or padded: padding in front in forward is the offset of the gradient.",
                )
    return None


def _is_shifted(case: Case, draw: Draw, dim: int, by: int) -> bool:
    got, right = draw.got, draw.right.reshape(case.shape)
    count = case.shape[dim] - 1
    mine, other = got.narrow(dim, 0 if by > 0 else 1, count), right.narrow(dim, 1 if by > 0 else 0, count)
    return bool(torch.any(other != 0)) and bool(case.equal(mine, other).all())
