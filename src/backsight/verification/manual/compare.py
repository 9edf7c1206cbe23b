"""`manual_backward`: compare gradients that were derived by hand with those of autograd."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from backsight.verification.manual.formulas import formula
from backsight.verification.manual.hypotheses import explained
from backsight.verification.manual.mistake import Mistake, close
from backsight.verification.manual.reference import Reference
from backsight.verification.probes import tolerance as of_rounding
from backsight.verification.report import Checked, Verification, WrongGradient
from backsight.verification.state import kept

Given = Mapping[str, Any]


def manual_backward(
    layer: nn.Module, x: Any, grad_out: Any, given: Given, tolerance: float | None = None
) -> Verification:
    """Compare `given` gradients, by names such as `weight_grad` and `input_grad`, with those of autograd.

    Raises:
        TypeError: if the layer is no module, or something that was given is no tensor or array.
        ValueError: if there is no such parameter, or shapes of `x` and `grad_out` do not fit the layer.
    """
    if not isinstance(layer, nn.Module):
        raise TypeError(f"the layer has to be a torch.nn.Module, not a {type(layer).__name__}.")
    inputs = tuple(_tensor("x", each) for each in (x if isinstance(x, tuple) else (x,)))
    with kept(layer), torch.no_grad():
        reference = Reference.of(layer, inputs, _tensor("grad_out", grad_out), frozenset(given))
        right = reference.gradients()
        findings: list[WrongGradient] = []
        checked: list[Checked] = []
        for asked, value in given.items():
            name = _name(asked, right)
            each = _tensor(asked, value)
            allowed = _allowed(each, layer, inputs) if tolerance is None else tolerance
            mistake = Mistake(name, each.to(right[name].dtype), right[name], allowed, reference)
            fine = close(mistake.given, mistake.right, allowed)
            checked.append(Checked(asked, fine, how="autograd in double precision"))
            if not fine:
                findings.append(_finding(asked, mistake))
    return Verification(tuple(findings), tuple(checked), subject="gradient", claim="value")


def _finding(asked: str, mistake: Mistake) -> WrongGradient:
    code, told = explained(mistake)
    fix = " ".join(filter(None, [told.fix, formula(mistake)]))
    name = f"{asked} of {type(mistake.layer).__name__}"
    evidence = tuple(filter(None, told.evidence.split("\n")))
    return WrongGradient(
        code, "error", f"{name} {told.title}.", evidence, fix, operation=asked, input=mistake.parameter
    )


def _name(asked: str, right: Mapping[str, torch.Tensor]) -> str:
    """Return the full name of a gradient: the `weight_grad` of a Sequential may be that of its one layer."""
    if asked in right:
        return asked
    meant = [name for name in right if name.endswith(f".{asked}")]
    if len(meant) == 1:
        return meant[0]
    known = ", ".join(right)
    if not meant:
        raise ValueError(f"there is no {asked}: what has a gradient here is {known}.")
    raise ValueError(
        f"{asked} may be that of several: {', '.join(meant)}. Give each by its name, as in "
        f"grads={{{meant[0].removesuffix('_grad')!r}: ...}}."
    )


def _tensor(name: str, value: Any) -> torch.Tensor:
    """Return a tensor or an array as a tensor; what was computed in NumPy is as good."""
    if isinstance(value, torch.Tensor):
        return value.detach()
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{name} has to be a tensor or an array, not a {type(value).__name__}.") from None


def _allowed(given: torch.Tensor, layer: nn.Module, inputs: tuple[torch.Tensor, ...]) -> float:
    """Return the relative difference that rounding explains: that of the coarsest dtype that took part."""
    dtypes = [each.dtype for each in (given, *inputs, *layer.parameters())]
    return of_rounding(dtypes) or 1e-9
