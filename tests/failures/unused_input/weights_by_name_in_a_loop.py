# code: BS204
# variable: fast
# cause: param = fast[name]
# fix: torch.func.functional_call(net, fast, (x,))
import torch
from torch import nn


def adapted(net, fast, x, y, rate=0.1):
    for name, param in net.named_parameters():
        param = fast[name]
    error = (net(x) - y).square().mean()
    grads = torch.autograd.grad(error, fast.values(), create_graph=True)
    return {name: p - rate * g for (name, p), g in zip(fast.items(), grads)}


torch.manual_seed(0)
net = nn.Linear(3, 1)
x, y = torch.randn(6, 3), torch.randn(6, 1)
fast = {name: p.clone() for name, p in net.named_parameters()}
fast = adapted(net, fast, x, y)
loss = (torch.func.functional_call(net, fast, (x,)) - y).square().mean()
loss.backward()
