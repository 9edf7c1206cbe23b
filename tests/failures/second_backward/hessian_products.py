# code: BS201
# variable: grads
# cause: return torch.autograd.grad(grads, self.params, grad_outputs=vec)
# fix: retain_graph=True)
import torch
import torch.nn as nn
import torch.nn.functional as F


class Hessian:
    """Hutchinson trace and top eigenvalue of the loss's Hessian."""

    def __init__(self, model, loss_fn):
        self.model = model
        self.loss_fn = loss_fn
        self.params = [p for p in model.parameters()]

    def grads(self, x, y):
        loss = self.loss_fn(self.model(x), y)
        return torch.autograd.grad(loss, self.params, create_graph=True)

    def hvp(self, grads, vec):
        return torch.autograd.grad(grads, self.params, grad_outputs=vec)

    def top_eigenvalue(self, x, y, iters=10):
        grads = self.grads(x, y)
        v = [torch.randn_like(p) for p in self.params]
        value = 0.0
        for _ in range(iters):
            norm = torch.sqrt(sum((t * t).sum() for t in v))
            v = [t / norm for t in v]
            hv = self.hvp(grads, v)
            value = sum((a * b).sum() for a, b in zip(hv, v)).item()
            v = list(hv)
        return value


def data(n):
    x = torch.randn(n, 6)
    return x, x[:, :3].argmax(1)


def train():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 3))
    opt = torch.optim.SGD(model.parameters(), lr=0.2)
    hessian = Hessian(model, F.cross_entropy)
    for epoch in range(5):
        x, y = data(128)
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(epoch, loss.item(), hessian.top_eigenvalue(x, y))


train()
