# code: BS201
# variable: dot
# cause: hvp = torch.autograd.grad(dot, self.params)
# fix: retain_graph=True)
import torch
import torch.nn as nn
import torch.nn.functional as F


def flat(tensors):
    return torch.cat([t.reshape(-1) for t in tensors])


def unflat(vector, like):
    out, at = [], 0
    for t in like:
        out.append(vector[at : at + t.numel()].view_as(t))
        at += t.numel()
    return out


class NaturalGradient:
    def __init__(self, model, lr=0.5, damping=1e-2, cg_iters=5):
        self.model = model
        self.params = list(model.parameters())
        self.lr, self.damping, self.cg_iters = lr, damping, cg_iters

    def fisher_vp(self, kl, v):
        grads = torch.autograd.grad(kl, self.params, create_graph=True)
        dot = flat(grads) @ v
        hvp = torch.autograd.grad(dot, self.params)
        return flat(hvp) + self.damping * v

    def solve(self, kl, b):
        x = torch.zeros_like(b)
        r = b.clone()
        p = r.clone()
        rs = r @ r
        for _ in range(self.cg_iters):
            ap = self.fisher_vp(kl, p)
            a = rs / (p @ ap)
            x = x + a * p
            r = r - a * ap
            new = r @ r
            p = r + new / rs * p
            rs = new
        return x

    def step(self, loss, kl):
        g = flat(torch.autograd.grad(loss, self.params, retain_graph=True))
        direction = self.solve(kl, g)
        with torch.no_grad():
            for p, d in zip(self.params, unflat(direction, self.params)):
                p.sub_(self.lr * d)


def fit():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 3))
    ng = NaturalGradient(model)
    x = torch.randn(64, 5)
    y = x[:, :3].argmax(1)
    for it in range(10):
        logits = model(x)
        loss = F.cross_entropy(logits, y)
        logp = F.log_softmax(logits, 1)
        kl = F.kl_div(logp, logp.detach(), log_target=True, reduction="batchmean")
        ng.step(loss, kl)
        print(it, loss.item())


fit()
