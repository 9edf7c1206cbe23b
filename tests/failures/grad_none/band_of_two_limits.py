# code: BS213
# variable: low.grad
# cause: inside = (x > low) & (x < high)
# fix: weight = torch.sigmoid(x - low) * torch.sigmoid(high - x)
"""Two limits to be learned, which select what a loss is the mean of."""

import torch

torch.manual_seed(0)
x, net = torch.randn(64), torch.nn.Linear(1, 1)
low, high = torch.tensor(-1.0, requires_grad=True), torch.tensor(1.0, requires_grad=True)
optimizer = torch.optim.SGD([low, high, *net.parameters()], lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    inside = (x > low) & (x < high)
    loss = net(x[:, None])[inside].square().mean()
    loss.backward()
    print(low.grad.item(), high.grad.item())
    optimizer.step()
