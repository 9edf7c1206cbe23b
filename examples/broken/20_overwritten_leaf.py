"""A learnable prior for each class, centred once under its own name.

What is wrong: `delta = delta - delta.mean()` gives the name to a result computed once, from the initial values.
               The optimizer keeps updating the original leaf, which no variable holds anymore.
PyTorch says:  nothing
Fix:          keep the leaf's name and centre it in every step: `model(x) + (delta - delta.mean())`.
"""

import torch
import torch.nn.functional as F
from torch import nn


def main():
    torch.manual_seed(0)
    labels = torch.multinomial(torch.tensor([0.8, 0.15, 0.05]), 600, replacement=True)
    x = torch.randn(600, 6)  # says nothing about the class: only the prior can be learned

    model = nn.Linear(6, 3, bias=False)
    delta = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.Adam([*model.parameters(), delta], lr=0.05)
    delta = delta - delta.mean()  # only differences count

    for epoch in range(100):
        logits = model(x) + delta
        loss = F.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    prior = torch.softmax(delta, dim=0)
    print(f"loss {loss.item():.3f}")
    print("prior learned " + ", ".join(f"{p:.3f}" for p in prior.tolist()))


if __name__ == "__main__":
    main()
