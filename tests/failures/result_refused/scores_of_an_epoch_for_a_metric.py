# code: BS219
# variable: scores
# line: 27
# fix: auc(self.targets().numpy(), scores.detach().numpy())
import numpy as np
import torch
from torch import nn


def auc(targets, scores):
    order = np.argsort(scores)
    ranks = np.empty(len(order))
    ranks[order] = np.arange(1, len(order) + 1)
    positive = targets > 0
    return (ranks[positive].sum() - positive.sum() * (positive.sum() + 1) / 2) / (positive.sum() * (~positive).sum())


class Report:
    def __init__(self):
        self.seen = []

    def targets(self):
        return torch.cat([y for _, y in self.seen])

    def value(self):
        scores = torch.cat([p for p, _ in self.seen])
        return auc(self.targets().numpy(), scores.numpy())


torch.manual_seed(7)
x = torch.randn(40, 4)
y = (x[:, 0] > 0).float()
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    report = Report()
    for k in range(0, 40, 10):
        scores = model(x[k : k + 10]).squeeze(1)
        loss = nn.functional.binary_cross_entropy_with_logits(scores, y[k : k + 10])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        report.seen.append((scores, y[k : k + 10]))
    print(epoch, report.value())
