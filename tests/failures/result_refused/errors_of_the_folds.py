# code: BS219
# variable: errors
# cause: score = np.mean([weight * error for weight, error in zip(weights, errors)])
# fix: zip(weights, [each.detach() for each in errors])
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(3, 1)
folds = torch.randn(4, 10, 4).unbind()


def error_of(fold):
    return (model(fold[:, :3]) - fold[:, 3:]).square().mean()


def score_of(folds, weights):
    errors = tuple(map(error_of, folds))
    score = np.mean([weight * error for weight, error in zip(weights, errors)])
    return float(score)


optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    for fold in folds:
        optimizer.zero_grad()
        error_of(fold).backward()
        optimizer.step()
    print(score_of(folds, [0.1, 0.2, 0.3, 0.4]))
