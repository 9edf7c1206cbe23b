# code: BS205
# variable: p | alpha
# cause: for p in parameters: p.clamp_(0.0, 1.0)
# fix: no_grad
import torch


def project(parameters):
    for p in parameters: p.clamp_(0.0, 1.0)


alpha = torch.full((3,), 0.5, requires_grad=True)
optimizer = torch.optim.SGD([alpha], lr=2.0)
for _ in range(2):
    loss = (alpha * torch.tensor([1.0, -1.0, 2.0])).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    project([alpha])
