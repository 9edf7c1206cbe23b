"""A classifier trained on the error of its predicted classes instead of on its logits.

What is wrong: `argmax` returns integer indices. They do not vary smoothly with the logits, so they have no
               gradient, and nothing computed from them has one.
PyTorch says:  element 0 of tensors does not require grad and does not have a grad_fn
Fix:          give the logits to the loss: `F.cross_entropy(logits, labels)`; keep argmax for the accuracy.
               `loss.requires_grad_()` would silence the error and train nothing.
"""

import torch
import torch.nn.functional as F
from torch import nn


def main():
    torch.manual_seed(0)
    features = torch.randn(200, 10)
    labels = (features[:, 0] > 0).long() + (features[:, 1] > 0).long()
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    for epoch in range(10):
        logits = model(features)
        predicted = logits.argmax(dim=1)
        loss = F.mse_loss(predicted.float(), labels.float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
