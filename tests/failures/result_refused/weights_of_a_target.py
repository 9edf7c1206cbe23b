# code: BS219
# variable: fast[0]
# cause: w.requires_grad = False
# fix: fast = [w.detach() for w in fast]
import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
meta = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    x, y = torch.randn(8, 3), torch.randn(8, 1)
    fast = [w.clone() for w in net.parameters()]
    names = [name for name, _ in net.named_parameters()]
    inner = (functional_call(net, dict(zip(names, fast)), (x,)) - y).square().mean()
    steps = torch.autograd.grad(inner, fast, create_graph=True)
    fast = [w - 0.1 * g for w, g in zip(fast, steps)]
    for w in fast:
        w.requires_grad = False
    target = functional_call(net, dict(zip(names, fast)), (x,))
    loss = (net(x) - target).square().mean()
    meta.zero_grad()
    loss.backward()
    meta.step()
    print(loss.item())
