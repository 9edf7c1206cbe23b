"""Looks at losses: what they are given as targets, and what is added to them."""

from __future__ import annotations

from typing import Any

import torch

from backsight.tape import made_by
from backsight.tape.ops import op_name
from backsight.tracing.looks_at_values import as_fraction
from backsight.tracing.peculiar import FEWEST, Call, Said, bounds, can_read, looks

_MANY = 256
"""Entries of which a mean is so much smaller than a sum that it does not count."""

_COLLAPSED = 0.05
"""A divergence of a sample so small that its code tells next to nothing of it."""


@looks("cosine_embedding_loss", "margin_ranking_loss")
def _signs_of_pairs(call: Call) -> Said | None:
    return _signs(call.values(2, "target"))


@looks("hinge_embedding_loss", "soft_margin_loss")
def _signs_of_one(call: Call) -> Said | None:
    return _signs(call.values(1, "target"))


def _signs(target: torch.Tensor | None) -> Said | None:
    """Labels of a loss that takes 1 and -1 are 0 and 1: zeros, and nothing below."""
    if target is None:
        return None
    low, _ = bounds(target)
    if low > 0:
        return None
    zeros = int((target == 0).sum())
    return "signs", low == 0 and bool(((target == 0) | (target == 1)).all()), (zeros, target.numel())


@looks("binary_cross_entropy_with_logits")
def _probabilities(call: Call) -> Said | None:
    """Targets that are no probabilities: then the loss has no minimum."""
    _averaged(call)
    target = call.values(1, "target")
    if target is None or target.is_complex():
        return None
    low, high = bounds(target)
    is_so = low < -0.25 or high > 1.25
    return "range", is_so, (low, high, float(((target < 0) | (target > 1)).double().mean()))


@looks("ctc_loss")
def _blanks(call: Call) -> Said | None:
    """Targets that contain the blank, which stands for no symbol."""
    targets, lengths, blank = call.values(1, "targets"), call.given(3, "target_lengths"), call.given(4, "blank", 0)
    if targets is None or type(blank) is not int:
        return None
    counted = targets
    if targets.dim() == 2:
        lengths = lengths.tolist() if can_read(lengths) else lengths
        if type(lengths) not in (list, tuple) or len(lengths) != len(targets):
            return None
        counted = torch.cat([row[: int(n)] for row, n in zip(targets, lengths, strict=True)])
    blanks = int((counted == blank).sum())
    return "blank", blanks > 0, (blanks, counted.numel(), blank)


@looks("kl_div")
def _logarithms(call: Call) -> Said | None:
    """A target that has probabilities where their logarithms are expected: these are never above 0."""
    target = call.values(1, "target")
    if target is None or call.kwargs.get("log_target") is not True:
        return None
    low, high = bounds(target)
    return "logs", low >= 0 and high > 0.01, (low, high)


@looks("triplet_margin_loss", "triplet_margin_with_distance_loss")
def _same(call: Call) -> Said | None:
    """A triplet two of whose members are one tensor."""
    three = [call.given(at, name) for at, name in enumerate(("anchor", "positive", "negative"))]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        a, b = three[one], three[other]
        if a is b or (can_read(a) and can_read(b) and a.shape == b.shape and a.numel() > 1 and torch.equal(a, b)):
            return "same", True, (one, other)
    return "same", False, ()


@looks("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy")
def _compared(call: Call) -> Said | None:
    """A prediction of N entries that is compared with a target of N×N."""
    _averaged(call)
    given, target = call.given(0, "input"), call.given(1, "target")
    if not isinstance(given, torch.Tensor) or not isinstance(target, torch.Tensor) or target.requires_grad:
        return None
    rows = given.numel()
    is_so = given.dim() == 1 and rows > 1 and target.shape == (rows, rows)
    return ("outer", True, (rows,)) if is_so else None


def _averaged(call: Call) -> None:
    """A loss that is the mean over all entries."""
    given, target = call.given(0, "input"), call.given(1, "target")
    if call.kwargs.get("reduction", "mean") != "mean" or not all(isinstance(t, torch.Tensor) for t in (given, target)):
        return
    if isinstance(call.result, torch.Tensor) and call.result.requires_grad and given.dim() > 1:
        call.book.averages.put(id(call.result), call.result, (call.site, given.numel(), given.shape[0]))


@looks("sum")
def _summed(call: Call) -> None:
    """A sum over all entries of what has the form of a Gaussian divergence."""
    given, made = call.args[0] if call.args else None, call.result
    if len(call.args) != 1 or call.kwargs or not isinstance(given, torch.Tensor) or given.dim() < 2:
        return
    if isinstance(made, torch.Tensor) and made.requires_grad and _is_divergence(given):
        call.book.divergences.put(id(made), made, (call.site, given.shape[0]))


@looks("mul", "__mul__", "__rmul__", of=("zeros", "divergences"))
def _multiplied(call: Call) -> None:
    """A quotient that is computed with, and a divergence with no factor but a half."""
    as_fraction(call)
    tensor = next((each for each in call.args[:2] if isinstance(each, torch.Tensor)), None)
    known = call.book.divergences.of(tensor)
    if known is not None and any(type(each) is float and abs(each) == 0.5 for each in call.args[:2]):
        call.book.divergences.put(id(call.result), call.result, known)


def _is_divergence(tensor: torch.Tensor) -> bool:
    """Whether a tensor adds up an exponential, a square, and what stands in the exponential."""
    names: list[str] = []
    nodes: list[Any] = [made_by(tensor)]
    for node in nodes:  # grows as we go
        name = op_name(type(node).__name__)
        names.append(name)
        if name in ("Add", "Sub", "Rsub", "Mul", "Neg", "Div"):
            nodes += [each for each, _ in node.next_functions if each is not None]
        if len(nodes) > FEWEST * 2:
            return False
    return "Exp" in names and ("Pow" in names or "Square" in names) and len(names) > 4


@looks("add", "__add__", "__radd__", of=("divergences",))
def _of_scales(call: Call) -> Said | None:
    """A mean over all entries, and a sum over all samples, that are added: the sum alone counts."""
    given = [each for each in call.args[:2] if isinstance(each, torch.Tensor)]
    if len(given) != 2 or given[0].dim() or given[1].dim():
        return None
    for one, other in (given, given[::-1]):
        mean, divergence = call.book.averages.of(one), call.book.divergences.of(other)
        if mean is not None and divergence is not None and mean[2] == divergence[1] and mean[1] >= _MANY:
            call.other = divergence[0]
            each = float(other) / divergence[1]
            return "scales", each < _COLLAPSED, (mean[1], divergence[1], each)
    return None
