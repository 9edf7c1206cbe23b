# code: BS213
# variable: posterior.0.weight
# cause: gradient.data.zero_()
# fix: if gradient is not None: gradient.data.zero_()
import torch
from torch import nn

prior = nn.Sequential(nn.Linear(3, 6), nn.Tanh())
judge = nn.Sequential(nn.Linear(6, 1), nn.Sigmoid())
posterior = nn.Sequential(nn.Linear(6, 3))
networks = {"prior": prior, "judge": judge, "posterior": posterior}
solvers = {name: torch.optim.Adam(each.parameters(), lr=1e-3) for name, each in networks.items()}


def clear():
    for name, weight in nn.ModuleDict(networks).named_parameters():
        gradient = weight.grad
        gradient.data.zero_()


for _ in range(3):
    real, code = torch.randn(8, 6), torch.randn(8, 3)
    judged = -(judge(real).log() + (1 - judge(prior(code))).log()).mean()
    judged.backward()
    solvers["judge"].step()
    clear()
    guessed = (posterior(prior(code)) - code).square().mean()
    guessed.backward()
    solvers["posterior"].step()
    clear()
