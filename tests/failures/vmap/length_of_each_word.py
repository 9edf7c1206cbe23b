# code: BS226
# variable: length
# cause: for at in torch.arange(length):
# fix: loop up to the greatest length
import torch
from torch import nn


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(6, 6)

    def forward(self, word, length):
        h = word.new_zeros(6)
        for at in torch.arange(length):
            h = torch.tanh(self.cell(h) + word[at])
        return h


def read(reader, words, lengths):
    return torch.func.vmap(reader)(words, lengths)


torch.manual_seed(0)
reader = Reader()
loss = read(reader, torch.randn(4, 5, 6), torch.tensor([5, 2, 3, 1])).square().sum()
loss.backward()
