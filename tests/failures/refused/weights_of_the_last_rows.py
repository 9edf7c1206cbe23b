# code: BS200
# variable: weights
# cause: weights = (shares / shares.sum()).expand(4, 3)
# fix: write `weights = (shares / shares.sum()).expand(4, 3).clone()`
import torch

shares = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
optimizer = torch.optim.SGD([shares], lr=0.1)
for _ in range(3):
    weights = (shares / shares.sum()).expand(4, 3)
    weights[2:] *= 0.5
    loss = (weights * torch.randn(4, 3)).sum().square()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
