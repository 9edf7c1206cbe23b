# code: BS201
# variable: weights
# cause: weights = F.softmax(head(torch.randn(5, 8)).flatten(), dim=0)
# fix: weights = F.softmax(head(torch.randn(5, 8)).flatten(), dim=0)
import torch
import torch.nn.functional as F
from torch import nn

rnn, head = nn.GRUCell(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(2, 4)


def step(weights):
    loss = (weights * torch.randn(5)).sum()
    loss.backward()


def train():
    weights = F.softmax(head(torch.randn(5, 8)).flatten(), dim=0)
    for _ in range(3):
        step(weights)


train()
