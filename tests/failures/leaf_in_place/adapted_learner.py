# code: BS205
# variable: learner.0.weight
# cause: p -= 0.1 * g
# fix: torch.func.functional_call(learner, params, (x,))
import torch
from torch import nn

learner = nn.Sequential(nn.Linear(1, 20), nn.Tanh(), nn.Linear(20, 1))
meta = torch.optim.Adam(learner.parameters(), lr=1e-3)


def adapt(learner, x, y):
    params = list(learner.parameters())
    for _ in range(2):
        grads = torch.autograd.grad((learner(x) - y).pow(2).mean(), params, create_graph=True)
        for p, g in zip(params, grads):
            p -= 0.1 * g
    return learner


for _ in range(3):
    phase = torch.rand(()) * 3
    x, x_test = torch.rand(10, 1) * 6, torch.rand(10, 1) * 6
    loss = (adapt(learner, x, torch.sin(x + phase))(x_test) - torch.sin(x_test + phase)).pow(2).mean()
    meta.zero_grad()
    loss.backward()
    meta.step()
