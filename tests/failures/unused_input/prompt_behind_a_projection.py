# code: BS204
# variable: prompt
# cause: return self.scale * vectors.data
# fix: write `return self.scale * vectors`, without .data
"""The gradient of a prompt, for which a method of the model takes the values alone, two calls below."""

import torch
from torch import nn

torch.manual_seed(0)


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(8))
        self.head = nn.Linear(8, 2)

    def normed(self, vectors):
        return self.scale * vectors.data

    def forward(self, prompt, words):
        return self.head(torch.cat([self.normed(prompt), words]).mean(0))


reader = Reader()
prompt = torch.randn(3, 8, requires_grad=True)
words = torch.randn(5, 8)
score = reader(prompt, words)[1]
(slope,) = torch.autograd.grad(score, prompt)
print(slope.norm())
