# code: BS202
# variable: x
# cause: (lambda t: t.add_(1))(x)
# fix: Write t.add(1) instead of t.add_(1)
import torch

x = torch.zeros(3)
x[0] = 1
loss = (torch.ones(3, requires_grad=True) * x).sum()
(lambda t: t.add_(1))(x)
loss.backward()
