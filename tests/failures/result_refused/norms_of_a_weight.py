# code: BS219
# variable: layer.weight
# cause: return np.linalg.norm(layer.weight.numpy(), axis=1)
# fix: layer.weight.detach().numpy()
import numpy as np
from torch import nn


def norms(layer):
    return np.linalg.norm(layer.weight.numpy(), axis=1)


model = nn.Linear(2, 1)
print(norms(model))
