# code: BS215
# variable: energy
# cause: energy = torch.compile(lambda x: x.pow(3).sum(), backend="aot_eager")
# fix: energy = lambda x: x.pow(3).sum()
import torch
import torch._dynamo

twice = torch.compile(lambda x: 2 * x, backend="aot_eager")
energy = torch.compile(lambda x: x.pow(3).sum(), backend="aot_eager")
x = torch.randn(3, requires_grad=True)
(g,) = torch.autograd.grad(energy(x), x, create_graph=True)
twice(g.detach())
g.square().sum().backward()
