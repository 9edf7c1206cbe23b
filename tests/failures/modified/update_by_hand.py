# code: BS202
# variable: w
# cause: w -= 0.1
# fix: w -= 0.1
import torch

w = torch.randn(3, requires_grad=True)
for step in range(3):
    loss = (w**3).sum()
    with torch.no_grad():
        w -= 0.1
    loss.backward()
