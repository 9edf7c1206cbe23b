# code: BS200
# variable: LBFGS
# cause: optimizer = torch.optim.LBFGS([{"params": [place], "lr": 0.5}, {"params": [size], "lr": 0.1}])
# fix: torch.optim.LBFGS([*[place], *[size]])
import torch

torch.manual_seed(0)
place, size = torch.randn(3, requires_grad=True), torch.ones(1, requires_grad=True)
goal = torch.tensor([1.0, 2.0, 3.0])
optimizer = torch.optim.LBFGS([{"params": [place], "lr": 0.5}, {"params": [size], "lr": 0.1}])


def closure():
    optimizer.zero_grad()
    energy = (place * size - goal).square().sum()
    energy.backward()
    return energy


print(optimizer.step(closure).item())
