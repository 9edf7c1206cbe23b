# code: BS202
# variable: student.1.weight
# cause: w.mul_(0).add_(m)
# fix: Call means(), which modifies it, only above the forward pass that uses
# The target is computed with averaged weights after the student's pass, and they are put back before backward.
import contextlib

import torch
from torch import nn


@contextlib.contextmanager
def means(weights, averages):
    kept = [w.detach().clone() for w in weights]
    with torch.no_grad():
        for w, m in zip(weights, averages):
            w.mul_(0).add_(m)
    yield
    with torch.no_grad():
        for w, k in zip(weights, kept):
            w.mul_(0).add_(k)


torch.manual_seed(0)
student = nn.Sequential(nn.Linear(5, 6), nn.Linear(6, 2))
weights = list(student.parameters())
averages = [w.detach().clone() for w in weights]
optimizer = torch.optim.SGD(weights, lr=0.1)
for step in range(3):
    x = torch.randn(8, 5)
    guess = student(x)
    with means(weights, averages), torch.no_grad():
        wanted = student(x + 0.1)
    loss = (guess - wanted).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
