# code: BS219
# variable: scores
# cause: scores = np.asarray(scores)
# fix: `scores = np.asarray([each.detach() for each in scores])`
import numpy as np
import torch
from torch import nn

net = nn.Linear(3, 1)


def fold(parts):
    scores = [net(part).mean() for part in parts]
    scores = np.asarray(scores)
    return scores.mean(), scores.std()


print(fold([torch.randn(4, 3) for _ in range(3)]))
