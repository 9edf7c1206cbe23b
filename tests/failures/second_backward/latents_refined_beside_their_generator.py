# code: BS201
# variable: z
# cause: z = torch.tanh(z - 0.5 * g)
# fix: put `z = z.detach().requires_grad_()` below line 19
import torch
from torch import nn

torch.manual_seed(0)
generator = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3)
z = torch.randn(16, 4, requires_grad=True)
for step in range(4):
    target = torch.randn(16, 3)
    loss = (generator(z) - target).square().mean()
    g, = torch.autograd.grad(loss, z, retain_graph=True)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    z = torch.tanh(z - 0.5 * g)
    print(step, loss.item())
