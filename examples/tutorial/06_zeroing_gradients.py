"""What zero_grad() is for: the digits learnt with it and without it, as two loss curves."""

import argparse

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn

STEPS = 300


def losses(zeroing):
    """Train a small classifier on scikit-learn's digits, and return the loss of every step."""
    torch.manual_seed(0)
    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32) / 16
    labels = torch.tensor(digits.target)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    curve = []
    for _ in range(STEPS):
        if zeroing:
            optimizer.zero_grad()
        batch = torch.randint(len(images), (64,))
        loss = F.cross_entropy(model(images[batch]), labels[batch])
        loss.backward()  # adds to .grad: without zeroing, each step goes along the sum of all gradients so far
        optimizer.step()
        curve.append(loss.item())
    return curve


def plotted(curves):
    """Return the curves as a figure."""
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
    for name, curve in curves.items():
        axes.plot(curve, label=name)
    axes.set(xlabel="step", ylabel="loss", yscale="log")
    axes.legend(frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plot", metavar="FILE", help="draw the two curves (needs matplotlib)")
    arguments = parser.parse_args()
    curves = {"zero_grad() each step": losses(True), "never zeroed": losses(False)}
    for name, curve in curves.items():
        last = sum(curve[-20:]) / 20
        print(f"{name}: loss {curve[0]:.2f} at first, {max(curve):.2f} at most, {last:.2f} at last")
    if arguments.plot:
        plotted(curves).savefig(arguments.plot)


if __name__ == "__main__":
    main()
