# code: BS225
# variable: scores
# cause: scores.register_hook(lambda g, k=step: (g, seen.append((k, g.abs().max()))))
# fix: Return only the tensor that is to replace g
import torch
from torch import nn

seen = []
model = nn.Linear(3, 2)
for step in range(2):
    scores = model(torch.randn(4, 3))
    scores.register_hook(lambda g, k=step: (g, seen.append((k, g.abs().max()))))
    scores.logsumexp(1).mean().backward()
