# code: BS227
# variable: checkpoint
# cause: y = checkpoint(lambda x: block(x), x, use_reentrant=True)
# fix: use_reentrant=False
# unsure: a lambda may use any parameters
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

block = nn.Linear(3, 3)
x = torch.ones(2, 3)
y = checkpoint(lambda x: block(x), x, use_reentrant=True)
