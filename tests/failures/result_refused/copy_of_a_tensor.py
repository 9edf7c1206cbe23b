# code: BS219
# variable: scaled
# cause: before = copy.deepcopy(scaled)
# fix: scaled.detach().clone()
import copy

import torch

weight = torch.ones(3, requires_grad=True)
scaled = weight * 2
before = copy.deepcopy(scaled)
