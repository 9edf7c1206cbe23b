"""`manual_backward`: compare gradients that were derived by hand with those of autograd, and say what to write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from backsight.verification.directions import wide
from backsight.verification.hypotheses import certain
from backsight.verification.manual.given import Given, close
from backsight.verification.manual.layer import gradients, point_of
from backsight.verification.probes import tolerance as of_rounding
from backsight.verification.report import Checked, Verification, WrongGradient
from backsight.verification.state import kept


def manual_backward(
    layer: nn.Module, x: Any, grad_out: Any, given: Mapping[str, Any], tolerance: float | None = None
) -> Verification:
    """Compare `given` gradients, by names such as `weight_grad` and `input_grad`, with those of autograd.

    Raises:
        TypeError: if the layer is no module, or something that was given is no tensor or array.
        ValueError: if there is no such parameter, or shapes of `x` and `grad_out` do not fit the layer.
    """
    if not isinstance(layer, nn.Module):
        raise TypeError(f"the layer must be a torch.nn.Module, not a {type(layer).__name__}.")
    inputs = tuple(_tensor("x", each) for each in (x if isinstance(x, tuple) else (x,)))
    with kept(layer):
        signal = _tensor("grad_out", grad_out)
        point, u = point_of(layer, inputs, signal, frozenset(given)), wide(signal)
        right = gradients(point, u)
        numbers = {name: k for k, name in enumerate(right)}
        names = {asked: _name(asked, right) for asked in given}
        all_given = {numbers[name]: _tensor(asked, given[asked]).to(right[name].dtype) for asked, name in names.items()}
        findings: list[WrongGradient] = []
        checked: list[Checked] = []
        for asked, name in names.items():
            mine, number = all_given[numbers[name]], numbers[name]
            allowed = _allowed(_tensor(asked, given[asked]), layer, inputs) if tolerance is None else tolerance
            fine = close(mine, right[name], allowed)
            checked.append(Checked(asked, fine, how="autograd in double precision"))
            if not fine:
                findings.append(_finding(asked, layer, Given(point, number, u, all_given, right[name], allowed)))
    return Verification(tuple(findings), tuple(checked), subject="gradient", claim="value")


def _finding(asked: str, layer: nn.Module, case: Given) -> WrongGradient:
    code, explanation = certain(case)
    fix = " ".join(filter(None, [explanation.fix, formula(layer, case.argument)]))
    return WrongGradient(
        code,
        explanation.severity,
        explanation.title,
        explanation.evidence,
        fix,
        operation=asked,
        input=case.argument,
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
        raise ValueError(f"there is no {asked}: gradients exist for {known}.")
    raise ValueError(
        f"{asked} is ambiguous: {', '.join(meant)}. Pass each by name, as in "
        f"grads={{{meant[0].removesuffix('_grad')!r}: ...}}."
    )


def _tensor(name: str, value: Any) -> torch.Tensor:
    """Return a tensor or an array as a tensor; what was computed in NumPy is as good."""
    if isinstance(value, torch.Tensor):
        return value.detach()
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        raise TypeError(f"{name} must be a tensor or an array, not a {type(value).__name__}.") from None


def _allowed(given: torch.Tensor, layer: nn.Module, inputs: tuple[torch.Tensor, ...]) -> float:
    """Return the relative difference that rounding explains: that of the coarsest dtype that took part."""
    dtypes = [each.dtype for each in (given, *inputs, *layer.parameters())]
    return of_rounding(dtypes) or 1e-9


FORMULAS: dict[type[nn.Module], dict[str, str]] = {
    nn.Linear: {
        "weight": "grad_out.T @ x",
        "bias": "grad_out.sum(0)",
        "input": "grad_out @ weight",
    },
    nn.Conv1d: {
        "weight": "torch.nn.grad.conv1d_weight(x, weight.shape, grad_out, stride, padding)",
        "bias": "grad_out.sum((0, 2))",
        "input": "torch.nn.grad.conv1d_input(x.shape, weight, grad_out, stride, padding)",
    },
    nn.Conv2d: {
        "weight": "torch.nn.grad.conv2d_weight(x, weight.shape, grad_out, stride, padding)",
        "bias": "grad_out.sum((0, 2, 3))",
        "input": "torch.nn.grad.conv2d_input(x.shape, weight, grad_out, stride, padding)",
    },
    nn.Embedding: {"weight": "torch.zeros_like(weight).index_add(0, x.flatten(), grad_out.flatten(0, -2))"},
    nn.LayerNorm: {
        "weight": "(grad_out * normalised).sum(0), normalised = (x - x.mean(-1, True)) / x.std(-1, True)",
        "bias": "grad_out.sum(0)",
        "input": "(g - g.mean(-1, True) - normalised * (g * normalised).mean(-1, True)) / std, g = grad_out * weight",
    },
    nn.Sigmoid: {"input": "grad_out * y * (1 - y), y = sigmoid(x)"},
    nn.Tanh: {"input": "grad_out * (1 - y**2), y = tanh(x)"},
    nn.ReLU: {"input": "grad_out * (x > 0)"},
    nn.Softmax: {"input": "y * (grad_out - (grad_out * y).sum(dim, True)), y = softmax(x)"},
}
"""What is right for an input of one batch dimension: the error signal times what forward multiplied it with."""


def formula(layer: nn.Module, argument: str) -> str:
    """Return the formula of a gradient as a sentence; "" for a layer that has none here."""
    text = FORMULAS.get(type(layer), {}).get(argument)
    return f"{argument}_grad = {text}." if text else ""
