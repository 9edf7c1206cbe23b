# code: BS201
# variable: fast
# cause: fast = [p - r.exp() * g for p, r, g in zip(fast, rates, grads)]
# fix: zip([h.detach() for h in fast], rates, grads)
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
fast = [p.detach().clone().requires_grad_() for p in model.parameters()]
rates = nn.ParameterList([nn.Parameter(torch.full_like(p, -3.0)) for p in fast])
meta = torch.optim.Adam(rates.parameters(), lr=1e-2)


def run(x, fast):
    return torch.tanh(x @ fast[0].t() + fast[1]) @ fast[2].t() + fast[3]


for step in range(5):
    x = torch.randn(16, 3)
    loss = (run(x, fast) - x[:, :2].abs()).square().mean()
    grads = torch.autograd.grad(loss, fast, retain_graph=True)
    meta.zero_grad()
    loss.backward()
    meta.step()
    fast = [p - r.exp() * g for p, r, g in zip(fast, rates, grads)]
    print(step, loss.item())
