# code: BS200
# variable: pair[0]
# cause: return torch.optim.Adam(parts, lr=rate)
# fix: [p for p in pair.parameters() if all(p is not each for each in first.parameters())]
import torch
from torch import nn


def learner_of(pair, rate):
    first = pair[0]
    parts = [
        {"params": first.parameters(), "weight_decay": 0.1},
        {"params": pair.parameters()},
    ]
    return torch.optim.Adam(parts, lr=rate)


torch.manual_seed(0)
pair = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))
learner = learner_of(pair, 0.01)
x, y = torch.randn(12, 4), torch.randint(0, 2, (12,))
for step in range(4):
    loss = nn.functional.cross_entropy(pair(x), y)
    learner.zero_grad()
    loss.backward()
    learner.step()
