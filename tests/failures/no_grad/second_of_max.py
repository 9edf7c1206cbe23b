# code: BS203
# variable: logits
# cause: _, predictions = logits.max(dim=1)
# fix: logits
import torch
from torch import nn

classes = 4
model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, classes))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def confusion(logits, labels):
    _, predictions = logits.max(dim=1)
    matrix = torch.zeros(classes, classes)
    for p, t in zip(predictions, labels):
        matrix[t, p] += 1
    return matrix


labels = torch.randint(0, classes, (8,))
matrix = confusion(model(torch.randn(8, 6)), labels)
loss = 1 - matrix.diag().sum() / matrix.sum()
loss.backward()
