# code: BS201
# variable: cache['p']
# cause: cache["p"] = sum(p.pow(2).sum() for p in cell.parameters())
# fix: remove line 13
# varied: h = cell(torch.randn(1, 3), h.detach())
# or: h = repackage(h); h = cell(torch.randn(1, 3), h)
# or: (h,) = (each.detach() for each in (h,)); h = cell(torch.randn(1, 3), h)
import torch
cell = torch.nn.GRUCell(3, 4)
optimizer = torch.optim.SGD(cell.parameters(), lr=0.1)
cache = {}
def penalty():
    if "p" not in cache:
        cache["p"] = sum(p.pow(2).sum() for p in cell.parameters())
    return cache["p"]
def repackage(h):
    return h.detach()
h = torch.zeros(1, 4)

for step in range(3):
    h = cell(torch.randn(1, 3), h.detach())
    loss = h.sum() + penalty()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
