# code: BS219
# variable: scores
# cause: order = np.argsort(scores)
# fix: scores.detach().numpy()
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
ranker = nn.Sequential(nn.Linear(5, 10), nn.Tanh(), nn.Linear(10, 1))


def best(candidates, count):
    scores = ranker(candidates).squeeze(1)
    order = np.argsort(scores)
    return candidates[order[-count:].copy()]


print(best(torch.randn(20, 5), 3))
