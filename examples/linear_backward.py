"""What backward does at a linear layer, checked: three products, and each needs only what passes by at that moment.

For y = x W^T + b and the error signal dL/dy that arrives from above:

    dL/dW = (dL/dy)^T x     an outer product of error signal and activation, summed over the batch
    dL/db = sum of dL/dy    over the batch
    dL/dx = (dL/dy) W       what is passed on to the layer below

No product reads the gradient of another layer. That is why a layer's weights may be stepped, and their gradients
freed, as soon as dL/dx has been passed on: what `bs.release` does.
"""

import torch
import torch.nn.functional as F
from torch import nn


def error_signals(model, x, target):
    """Run backward; return for every linear layer its input, the gradient of its output, and that of its input."""
    seen = {}

    def keep(layer, inputs, output):
        (activation,) = inputs
        if activation.requires_grad:
            activation.retain_grad()
        output.retain_grad()
        seen[layer] = activation, output

    handles = [layer.register_forward_hook(keep) for layer in model if isinstance(layer, nn.Linear)]
    F.mse_loss(model(x), target).backward()
    for handle in handles:
        handle.remove()
    return {layer: (activation.detach(), output.grad, activation.grad) for layer, (activation, output) in seen.items()}


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(50, 50), nn.ReLU(), nn.Linear(50, 1))
    x, target = torch.randn(5, 50), torch.randn(5, 1)
    for name, layer in model.named_children():
        if not isinstance(layer, nn.Linear):
            continue
        model.zero_grad()
        activation, error, passed_on = error_signals(model, x, target)[layer]
        outer_products = torch.stack([torch.outer(e, a) for e, a in zip(error, activation, strict=True)])
        torch.testing.assert_close(layer.weight.grad, outer_products.sum(0))
        torch.testing.assert_close(layer.bias.grad, error.sum(0))
        print(
            f"layer {name}: weight.grad is the sum of {len(x)} outer products, bias.grad the sum of the error signals",
            end="",
        )
        if passed_on is None:
            print("; x asks for no gradient")
        else:
            torch.testing.assert_close(passed_on, error @ layer.weight)
            print(", and error signal times W is passed on")


if __name__ == "__main__":
    main()
