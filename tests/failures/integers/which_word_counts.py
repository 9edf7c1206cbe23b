# code: BS220
# variable: words
# cause: words = torch.tensor([[1, 4, 2]]).requires_grad_()
# fix: hook = model.table.register_forward_hook(
import torch
from torch import nn


class Mood(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.read = nn.Embedding(9, 4), nn.Linear(4, 1)

    def forward(self, words):
        return self.read(self.table(words).tanh().mean(1)).sum()


torch.manual_seed(0)
model = Mood()
words = torch.tensor([[1, 4, 2]]).requires_grad_()
model(words).backward()
print(words.grad.abs())
