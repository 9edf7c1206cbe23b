# code: BS219
# variable: weight
# cause: torch.mm(part, weight, out=into[k])
# fix: and use the result of `torch.mm(part, weight)` wherever into[k] is read
import torch


def project(parts, weight, into):
    for k, part in enumerate(parts):
        torch.mm(part, weight, out=into[k])


torch.manual_seed(0)
weight = torch.randn(3, 2, requires_grad=True)
optimizer = torch.optim.Adam([weight], lr=0.05)
parts, table = torch.randn(4, 5, 3), torch.empty(4, 5, 2)
for _ in range(10):
    optimizer.zero_grad()
    project(parts, weight, table)
    loss = (table - 1).square().mean()
    loss.backward()
    optimizer.step()
