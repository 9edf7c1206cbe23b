"""Second-order MAML for two-way classification with a random direction per task."""
from collections import OrderedDict

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.func import functional_call


def sample_task(g, k=8, dim=12):
    direction = torch.zeros(dim)
    direction[:2] = F.normalize(torch.randn(2, generator=g), dim=0)
    x = torch.randn(2 * k, dim, generator=g)
    y = (x @ direction > 0).float()
    return x[:k], y[:k], x[k:], y[k:]


class Net(nn.Module):
    def __init__(self, dim=12, h=48):
        super().__init__()
        self.f1, self.f2, self.out = nn.Linear(dim, h), nn.Linear(h, h), nn.Linear(h, 1)

    def forward(self, x):
        return self.out(F.relu(self.f2(F.relu(self.f1(x))))).squeeze(-1)


class MAML:
    def __init__(self, net, inner_lr=0.3, outer_lr=3e-3, inner_steps=3):
        self.net = net
        self.inner_lr = nn.Parameter(torch.tensor(inner_lr))
        self.inner_steps = inner_steps
        self.meta_opt = torch.optim.Adam([
            {"params": net.parameters(), "lr": outer_lr},
            {"params": [self.inner_lr], "lr": outer_lr},
        ])

    def adapt(self, x, y, second_order=True):
        params = OrderedDict(self.net.named_parameters())
        for _ in range(self.inner_steps):
            loss = F.binary_cross_entropy_with_logits(functional_call(self.net, params, (x,)), y)
            grads = torch.autograd.grad(loss, params.values(), create_graph=second_order)
            params = OrderedDict((n, p - self.inner_lr * g)
                                 for (n, p), g in zip(params.items(), grads))
        return params

    def outer_step(self, tasks):
        losses = []
        for xs, ys, xq, yq in tasks:
            fast = self.adapt(xs, ys)
            losses.append(F.binary_cross_entropy_with_logits(functional_call(self.net, fast, (xq,)), yq))
        meta = torch.stack(losses).mean()
        self.meta_opt.zero_grad()
        meta.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), 5.0)
        self.meta_opt.step()
        return meta.item()

    def test(self, g, n=60):
        hits = 0.0
        for _ in range(n):
            xs, ys, xq, yq = sample_task(g)
            fast = self.adapt(xs, ys, second_order=False)
            with torch.no_grad():
                hits += ((functional_call(self.net, fast, (xq,)) > 0).float() == yq).float().mean().item()
        return hits / n


if __name__ == "__main__":
    torch.manual_seed(0)
    g_train, maml = torch.Generator().manual_seed(1), MAML(Net())
    print(f"before: accuracy after adaptation {maml.test(torch.Generator().manual_seed(7)):.3f}")
    window = []
    for it in range(1, 141):
        window.append(maml.outer_step([sample_task(g_train) for _ in range(4)]))
        if it % 35 == 0:
            print(f"iter {it} query loss {sum(window[-35:]) / 35:.3f} inner lr {maml.inner_lr.item():.3f}")
    print(f"after: accuracy after adaptation {maml.test(torch.Generator().manual_seed(7)):.3f}")
