# code: BS205
# variable: model.a.weight
# cause: w -= lr * g
# fix: fast = {name:
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call


class SineNet(nn.Module):
    def __init__(self, width=40):
        super().__init__()
        self.a = nn.Linear(1, width)
        self.b = nn.Linear(width, width)
        self.c = nn.Linear(width, 1)

    def forward(self, x):
        return self.c(F.relu(self.b(F.relu(self.a(x)))))


def sample_task():
    amp, phase = torch.rand(1) * 4 + 0.5, torch.rand(1) * 3.14

    def draw(k):
        x = torch.rand(k, 1) * 10 - 5
        return x, amp * torch.sin(x + phase)

    return draw


def inner_loop(model, draw, steps, lr):
    fast = {name: p for name, p in model.named_parameters()}
    for _ in range(steps):
        x, y = draw(10)
        loss = F.mse_loss(functional_call(model, fast, (x,)), y)
        grads = torch.autograd.grad(loss, fast.values())
        for (name, w), g in zip(fast.items(), grads):
            w -= lr * g
    return fast


def meta_step(model, optim, tasks):
    optim.zero_grad()
    total = 0.0
    for draw in tasks:
        fast = inner_loop(model, draw, steps=2, lr=0.01)
        x, y = draw(20)
        query = F.mse_loss(functional_call(model, fast, (x,)), y)
        query.backward()
        total += query.item()
    optim.step()
    return total / len(tasks)


if __name__ == "__main__":
    torch.manual_seed(0)
    model = SineNet()
    optim = torch.optim.Adam(model.parameters(), lr=1e-3)
    for it in range(50):
        print(it, meta_step(model, optim, [sample_task() for _ in range(4)]))
