# code: BS200
# variable: out
# cause: out.register_hook(lambda grad: norms.append(grad.norm().item()))
# fix: if out.requires_grad: out.register_hook(
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 2))
norms = []


def watch_gradient(module, args, out):
    out.register_hook(lambda grad: norms.append(grad.norm().item()))


net[1].register_forward_hook(watch_gradient)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for epoch in range(2):
    for _ in range(3):
        x, y = torch.randn(8, 6), torch.randint(0, 2, (8,))
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        held = torch.randn(20, 6)
        print("validation", net(held).argmax(1).float().mean().item())
print(len(norms))
