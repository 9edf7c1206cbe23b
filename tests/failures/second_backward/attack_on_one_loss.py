# code: BS201
# variable: loss
# cause: loss = head(out).pow(2).mean()
# fix: Compute loss inside the loop, from
import torch
from torch import nn

rnn, head = nn.GRUCell(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(2, 4)


def attack(x):
    noise = torch.zeros_like(x, requires_grad=True)
    out = rnn(x + noise)
    loss = head(out).pow(2).mean()
    for _ in range(3):
        (grad,) = torch.autograd.grad(loss, noise)
        with torch.no_grad():
            noise += 0.1 * grad.sign()


attack(x)
