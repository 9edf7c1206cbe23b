# code: BS213
# variable: writer.weight
# cause: words = writer(x).argmax(dim=-1)
# fix: words @ self.table.weight
import torch
from torch import nn


class Reader(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.table = nn.Embedding(size, 4)
        self.out = nn.Linear(4, 2)

    def forward(self, words):
        seen = self.table(words)
        return self.out(seen.mean(dim=1))


writer, reader = nn.Linear(3, 6), Reader(6)
labels = torch.tensor([0, 1])
for _ in range(2):
    x = torch.randn(2, 5, 3)
    words = writer(x).argmax(dim=-1)
    loss = nn.functional.cross_entropy(reader(words), labels)
    loss.backward()
    print(writer.weight.grad.norm(), reader.table.weight.grad.norm())
