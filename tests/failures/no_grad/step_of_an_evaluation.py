# code: BS203
# variable: loss
# cause: with torch.no_grad():
# fix: with torch.no_grad():
import torch
import torch.nn.functional as F
from torch import nn

model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, labels = torch.randn(8, 4), torch.randint(0, 3, (8,))


def step():
    loss = F.cross_entropy(model(x), labels)
    loss.backward()


def evaluate():
    with torch.no_grad():
        step()


evaluate()
