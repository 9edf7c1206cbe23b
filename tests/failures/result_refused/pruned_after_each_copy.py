# code: BS219
# variable: rated.hidden.weight
# cause: best.append(copy.deepcopy(rated))
# fix: for each in (m for m in (rated.hidden, rated.score) if hasattr(m, 'weight_orig')): each.weight
import copy

import torch
from torch import nn
from torch.nn.utils import prune


class Rater(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.hidden = nn.Linear(5, width)
        self.score = nn.Linear(width, 1)

    def forward(self, x):
        return self.score(torch.relu(self.hidden(x))).squeeze(1)


torch.manual_seed(0)
rated, best = Rater(), []
x, target = torch.randn(32, 5), torch.randn(32)
for sparsity in (0.2, 0.3, 0.4):
    sgd = torch.optim.SGD(rated.parameters(), lr=0.05)
    for _ in range(3):
        sgd.zero_grad()
        nn.functional.mse_loss(rated(x), target).backward()
        sgd.step()
    best.append(copy.deepcopy(rated))
    for layer in (rated.hidden, rated.score):
        prune.l1_unstructured(layer, "weight", amount=sparsity)
