# code: BS204
# variable: u_x
# cause: u_xx = torch.autograd.grad(u_x.sum(), x)[0]
# fix: allow_unused=True with materialize_grads=True returns zeros
# unsure: that only linear operations lie between is read from the text
import torch

net = torch.nn.Linear(1, 1)
x = torch.rand(10, 1, requires_grad=True)
u = net(x)
u_x = torch.autograd.grad(u.sum(), x, create_graph=True)[0]
u_xx = torch.autograd.grad(u_x.sum(), x)[0]
