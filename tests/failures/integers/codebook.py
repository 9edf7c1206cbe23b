# code: BS220
# variable: codes
# cause: self.codes = nn.Parameter(codes)
# fix: nn.Parameter(codes, requires_grad=False)
import torch
from torch import nn


class Codebook(nn.Module):
    def __init__(self, size):
        super().__init__()
        codes = torch.randint(0, size, (16,))
        self.codes = nn.Parameter(codes)
        self.table = nn.Embedding(size, 4)

    def forward(self):
        return self.table(self.codes).sum()


Codebook(8)().backward()
