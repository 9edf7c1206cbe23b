# code: BS233
# variable: lambda
# cause: torch.func.grad(lambda x: x.sum().item())(torch.ones(3))
# fix: x.sum()
import torch

torch.func.grad(lambda x: x.sum().item())(torch.ones(3))
