"""A linear model with a learnable offset that no optimizer knows.

What is wrong: `delta` requires grad and gets a gradient at every step, but the optimizer was given the
               parameters of the model only. `delta` never moves.
PyTorch says:  nothing
Fix:          `torch.optim.SGD([*model.parameters(), delta], lr=0.1)`, or make `delta` an nn.Parameter of the
               model. If it is meant to be constant: drop `requires_grad=True`.
"""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
x = torch.randn(200, 4)
y = x @ torch.tensor([[1.0], [-2.0], [0.5], [3.0]]) + 2.0

model = nn.Linear(4, 1, bias=False)
delta = torch.zeros(1, requires_grad=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

for epoch in range(100):
    y_pred = model(x) + delta
    loss = F.mse_loss(y_pred, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

print(f"loss {loss.item():.3f}")
print(f"offset learned {delta.item():.3f}, true offset 2.000")
