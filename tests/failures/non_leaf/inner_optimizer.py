# code: BS206
# variable: fast[0]
# cause: fast = [p.clone() for p in model.parameters()]
# fix: out of place
import torch
from torch import nn
from torch.nn import functional as F

model = nn.Linear(4, 1)
outer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(5):
    x, y = torch.randn(8, 4), torch.randn(8, 1)
    fast = [p.clone() for p in model.parameters()]
    inner = torch.optim.SGD(fast, lr=0.1)
    F.mse_loss(F.linear(x, *fast), y).backward(create_graph=True)
    inner.step()
    outer.zero_grad()
    F.mse_loss(F.linear(x, *fast), y).backward()
    outer.step()
