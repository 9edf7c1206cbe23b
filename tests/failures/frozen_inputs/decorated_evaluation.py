# code: BS227
# variable: reentrant
# cause: return checkpoint(block, x, use_reentrant=True)
# fix: Nothing is lost
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

block = nn.Linear(3, 3)
x = torch.ones(2, 3)


@torch.no_grad()
def evaluate():
    return checkpoint(block, x, use_reentrant=True)


evaluate()
