# code: BS200
# variable: weight
# cause: weight.grad.zero()
# fix: write `weight.grad.zero_()`
# or: weight.grad.zero_grad()
import torch

weights = [torch.randn(3, 2).requires_grad_(), torch.randn(2).requires_grad_()]
x = torch.randn(10, 3)
for _ in range(3):
    loss = (x @ weights[0] + weights[1]).square().mean()
    loss.backward()
    with torch.no_grad():
        for weight in weights:
            weight -= 0.1 * weight.grad
            weight.grad.zero()
