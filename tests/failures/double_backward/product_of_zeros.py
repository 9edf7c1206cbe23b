# code: BS215
# variable: scatter_reduce
# cause: y = torch.ones(2).scatter_reduce(0, torch.tensor([0, 0, 1]), values, "prod")
# fix: Replace scatter_reduce by operations that can be differentiated twice
import torch

values = torch.zeros(3, requires_grad=True)
y = torch.ones(2).scatter_reduce(0, torch.tensor([0, 0, 1]), values, "prod")
(g,) = torch.autograd.grad(y.sum(), values, create_graph=True)
g.square().sum().backward()
