# code: BS219
# variable: scores["left"]
# cause: spread = np.std(scores["left"])
# fix: spread = np.std([each.detach() for each in scores["left"]])
import numpy as np
import torch
from torch import nn

heads = {"left": nn.Linear(4, 1), "right": nn.Linear(4, 1)}
scores = {"left": [], "right": []}
x = torch.randn(6, 4)
for name, head in heads.items():
    for row in x:
        scores[name].append(head(row).sum())

loss = sum(scores["left"]) - sum(scores["right"])
spread = np.std(scores["left"])
loss.backward()
print(spread)
