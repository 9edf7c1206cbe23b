# code: BS203
# variable: validation
# cause: with torch.inference_mode():
# fix: Remove line 14, `with torch.inference_mode():`, and dedent the lines inside it
import torch
from torch import nn

model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def evaluate(batches):
    total = 0.0
    with torch.inference_mode():
        for x, y in batches:
            total = total + nn.functional.cross_entropy(model(x), y)
    return total / len(batches)


batches = [(torch.randn(3, 4), torch.tensor([0, 1, 1])) for _ in range(2)]
validation = evaluate(batches)
validation.backward()
