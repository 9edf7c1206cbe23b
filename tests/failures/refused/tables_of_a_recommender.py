# code: BS200
# variable: embedding.shops.weight
# cause: self.shops = nn.EmbeddingBag(30, size, mode="sum", sparse=True)
# fix: on line 12
import torch
from torch import nn


class Ratings(nn.Module):
    def __init__(self, size=6):
        super().__init__()
        self.shops = nn.EmbeddingBag(30, size, mode="sum", sparse=True)
        self.goods = nn.ModuleList(nn.Embedding(40, size, sparse=True) for _ in range(2))
        self.colors = nn.Embedding(5, size)
        self.score = nn.Linear(size, 1)

    def forward(self, shops, goods, colors):
        mixed = self.shops(shops) * self.goods[0](goods) + self.goods[1](goods) * self.colors(colors)
        return self.score(mixed).squeeze(1)


torch.manual_seed(0)
embedding = Ratings()
weight = [each for each in embedding.parameters()]
optimizer = torch.optim.RMSprop(weight, lr=0.01)
for _ in range(4):
    shops = torch.randint(0, 30, (8, 3))
    guess = embedding(shops, torch.randint(0, 40, (8,)), torch.randint(0, 5, (8,)))
    optimizer.zero_grad()
    (guess - shops.float().mean(1)).abs().mean().backward()
    optimizer.step()
