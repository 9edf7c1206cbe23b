# code: BS203
# variable: loss
# cause: before = torch.is_grad_enabled()
# fix: above line 10
import torch
from torch import nn


def perplexity(model, tokens):
    torch.set_grad_enabled(False)
    before = torch.is_grad_enabled()
    try:
        scores = model(tokens[:, :-1])
        return nn.functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten()).exp()
    finally:
        torch.set_grad_enabled(before)


model = nn.Sequential(nn.Embedding(12, 6), nn.Linear(6, 12))
optimizer = torch.optim.Adam(model.parameters())
for step in range(4):
    tokens = torch.randint(0, 12, (3, 7))
    loss = nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 2 == 0:
        print(step, perplexity(model, tokens))
