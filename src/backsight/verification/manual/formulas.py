"""The backward of common layers in a line: what to write."""

from __future__ import annotations

from torch import nn

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
