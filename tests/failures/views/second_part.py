# code: BS209
# variable: parts[1]
# cause: parts[1].relu_()
# fix: write `parts[1] = parts[1].relu()`
import torch

h = torch.nn.Linear(4, 4)(torch.randn(2, 4))
parts = h.split(2, dim=1)
parts[1].relu_()
