# code: BS226
# variable: rounds
# cause: for _ in range(int(rounds)):
# fix: total = torch.where(k < rounds, total + x, total)
import torch
from torch import nn

torch.manual_seed(0)
step = nn.Linear(3, 3)
optimizer = torch.optim.SGD(step.parameters(), lr=0.1)
starts, counts = torch.randn(10, 3), torch.randint(1, 4, (10,))


def walked(x, rounds):
    total = torch.zeros_like(x)
    for _ in range(int(rounds)):
        way = torch.tanh(step(x))
        x = x + 0.5 * way
        total += x
    return x, total


for turn in range(3):
    ends, totals = torch.vmap(walked)(starts, counts)
    loss = ends.square().mean() + totals.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(turn, loss.item())
