# code: BS204
# variable: self.net
# cause: old = new
# fix: return torch.func.functional_call(self.net, dict(zip(dict(self.net.named_parameters()), weights)), (x,))
import torch
from torch import nn


class Adapter:
    """Takes a few steps from weights that are trained themselves."""

    def __init__(self, net):
        self.net = net
        self.start = [p.detach().clone().requires_grad_() for p in net.parameters()]
        self.optimizer = torch.optim.SGD(self.start, lr=0.05)

    def predict(self, x, weights):
        for old, new in zip(self.net.parameters(), weights):
            old = new
        return self.net(x)

    def misfit(self, x, y, weights):
        return (self.predict(x, weights) - y).square().mean()

    def adapt(self, x, y):
        fast = self.start
        for _ in range(2):
            error = self.misfit(x, y, fast)
            slopes = torch.autograd.grad(error, fast, create_graph=True)
            fast = [w - 0.1 * g for w, g in zip(fast, slopes)]
        return fast

    def step(self, x, y):
        self.optimizer.zero_grad()
        self.misfit(x, y, self.adapt(x, y)).backward()
        self.optimizer.step()


torch.manual_seed(0)
adapter = Adapter(nn.Sequential(nn.Linear(2, 6), nn.Tanh(), nn.Linear(6, 1)))
for _ in range(3):
    x = torch.randn(8, 2)
    adapter.step(x, x.sum(dim=1, keepdim=True))
