# code: BS225
# variable: p
# cause: return kept
# fix: on line 17, write `return kept.view_as(grad)`
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 1))


def only_large(grad):
    flat = grad.flatten()
    least = flat.abs().kthvalue(flat.numel() // 2 + 1).values
    kept = torch.where(flat.abs() >= least, flat, torch.zeros_like(flat))
    # the rest is sent later
    return kept


for p in model.parameters():
    p.register_hook(only_large)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = model(torch.randn(8, 3)).square().mean()
loss.backward()
optimizer.step()
