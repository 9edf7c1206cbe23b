# code: BS200
# variable: scale
# cause: optimizer = torch.optim.Adam([*net.parameters(), *scale.parameters(), *bias.parameters()], lr=0.01)
# fix: [*net.parameters(), *[scale], *[bias]]
import torch

net = torch.nn.Linear(4, 3)
scale = torch.nn.Parameter(torch.ones(3))
bias = torch.nn.Parameter(torch.zeros(3))
optimizer = torch.optim.Adam([*net.parameters(), *scale.parameters(), *bias.parameters()], lr=0.01)
for _ in range(3):
    loss = (net(torch.randn(5, 4)) * scale + bias).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
