# code: BS215
# variable: energy
# cause: energy = torch.compile(lambda x: x.pow(3).sum(), backend="aot_eager")
# fix: energy = lambda x: x.pow(3).sum()
import torch
import torch._dynamo

energy = torch.compile(lambda x: x.pow(3).sum(), backend="aot_eager")
x = torch.randn(3, requires_grad=True)
(g,) = torch.autograd.grad(energy(x), x, create_graph=True)
g.square().sum().backward()
