# code: BS201
# variable: memory
# cause: memory = torch.tanh(mix(torch.cat([x, memory], dim=1)))
# fix: detach
import torch
from torch import nn


def make_stepper(width, lr):
    mix = nn.Linear(2 * width, width)
    head = nn.Linear(width, 1)
    optimizer = torch.optim.RMSprop([*mix.parameters(), *head.parameters()], lr=lr)
    memory = torch.zeros(4, width)

    def step(x, y):
        nonlocal memory
        memory = torch.tanh(mix(torch.cat([x, memory], dim=1)))
        loss = nn.functional.mse_loss(head(memory), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


step = make_stepper(width=5, lr=1e-3)
history = [step(torch.randn(4, 5), torch.randn(4, 1)) for _ in range(4)]
