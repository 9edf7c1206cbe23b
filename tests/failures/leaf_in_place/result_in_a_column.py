# code: BS205
# variable: x
# cause: x[:, 0] = model(torch.randn(3, 2)).squeeze()
# fix: Modify a copy: put new_x =
import torch


def embed(model):
    x = torch.zeros(3, 4, requires_grad=True)
    x[:, 0] = model(torch.randn(3, 2)).squeeze()
    return x


embed(torch.nn.Linear(2, 1))
