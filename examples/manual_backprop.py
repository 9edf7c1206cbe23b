"""A network that reads digits, its backward pass written by hand: first proven right, then trained without autograd.

For each layer backward gets the error signal, the gradient of the loss with respect to what the layer returned, and
makes two things of it: the gradients of the weights, error signal times activation, and the error signal of the layer
below. `bs.testing.assert_manual_backward` holds both against autograd before the training starts; run with `--wrong`
to see what it says of a mistake.
"""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn

import backsight as bs


def forward(model, x):
    """Return what each layer was given, and what the last one returned."""
    given = []
    for layer in model:
        given.append(x)
        x = layer(x)
    return given, x


def error_signal(logits, labels):
    """Return the gradient of the mean cross entropy with respect to the logits: softmax minus one-hot, over N."""
    signal = logits.softmax(dim=1)
    signal[torch.arange(len(labels)), labels] -= 1
    return signal / len(labels)


def linear_backward(layer, x, grad_out):
    """Return the gradients of weight, bias and input of a linear layer."""
    return grad_out.T @ x, grad_out.sum(0), grad_out @ layer.weight


def tanh_backward(x, grad_out):
    """Return the gradient of the input of a tanh."""
    return grad_out * (1 - x.tanh() ** 2)


def backward(model, given, grad_out):
    """Return the gradient of each parameter, in the order of model.parameters()."""
    gradients = []
    for layer, x in zip(reversed(model), reversed(given), strict=True):
        if isinstance(layer, nn.Linear):
            weight_grad, bias_grad, grad_out = linear_backward(layer, x, grad_out)
            gradients = [weight_grad, bias_grad, *gradients]
        else:
            grad_out = tanh_backward(x, grad_out)
    return gradients


def prove(model, x, labels, wrong):
    """Hold each layer's backward against autograd, and the whole one too."""
    given, logits = forward(model, x)
    signal = grad_out = error_signal(logits, labels)
    for layer, a in zip(reversed(model), reversed(given), strict=True):
        if isinstance(layer, nn.Linear):
            weight_grad, bias_grad, down = linear_backward(layer, a, grad_out)
            if wrong:
                weight_grad = weight_grad / len(a)  # the batch was averaged over in the loss already
            bs.testing.assert_manual_backward(
                layer, a, grad_out, weight_grad=weight_grad, bias_grad=bias_grad, input_grad=down
            )
        else:
            down = tanh_backward(a, grad_out)
            bs.testing.assert_manual_backward(layer, a, grad_out, input_grad=down)
        grad_out = down
    names = [name for name, _ in model.named_parameters()]
    by_name = dict(zip(names, backward(model, given, signal), strict=True))
    bs.testing.assert_manual_backward(model, x, signal, grads=by_name)
    print(f"the gradients of {', '.join(names)} are those of autograd")


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wrong", action="store_true", help="with a mistake in it")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    digits = load_digits()
    images, labels = torch.tensor(digits.data, dtype=torch.float32) / 16, torch.tensor(digits.target)
    order = torch.randperm(len(labels))
    train, test = order[:1437], order[1437:]
    model = nn.Sequential(nn.Linear(64, 48), nn.Tanh(), nn.Linear(48, 10))

    prove(model, images[train[:32]], labels[train[:32]], arguments.wrong)

    for _ in range(20):
        for batch in train[torch.randperm(len(train))].split(32):
            given, logits = forward(model, images[batch])
            gradients = backward(model, given, error_signal(logits, labels[batch]))
            for parameter, gradient in zip(model.parameters(), gradients, strict=True):
                parameter -= 0.5 * gradient
    right = (model(images[test]).argmax(1) == labels[test]).float().mean()
    print(f"test accuracy {right:.3f}")


if __name__ == "__main__":
    main()
