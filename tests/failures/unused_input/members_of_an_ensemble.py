# code: BS204
# variable: member
# cause: grads = [torch.autograd.grad(error, member)[0] for error, member in zip(errors, members)]
# fix: members, retain_graph=True)[0][k] for k, (error, member) in enumerate(zip(errors, members))]
import torch

torch.manual_seed(0)
members = torch.randn(3, 4, requires_grad=True)
x = torch.randn(6, 4)
outputs = torch.einsum("kd,nd->kn", members, x)
errors = outputs.square().mean(dim=1)
grads = [torch.autograd.grad(error, member)[0] for error, member in zip(errors, members)]
print(torch.stack(grads).shape)
