# code: BS203
# variable: loss
# cause: torch.set_grad_enabled(False)
# fix: set_grad_enabled(True)
import torch
from torch import nn


def validate(model, batches):
    model.eval()
    torch.set_grad_enabled(False)
    accuracy = sum((model(x).argmax(1) == y).float().mean() for x, y in batches) / len(batches)
    model.train()
    return accuracy


model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(model.parameters())
batches = [(torch.randn(6, 4), torch.randint(0, 2, (6,))) for _ in range(2)]
for epoch in range(2):
    for x, y in batches:
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    validate(model, batches)
