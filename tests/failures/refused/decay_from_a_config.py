# code: BS200
# variable: words.table.weight
# cause: "words": {"num_embeddings": 300, "embedding_dim": 6, "sparse": True},
# fix: "weight_decay": 0
import torch
from torch import nn

CONFIG = {
    "optimizer": {"lr": 0.2, "momentum": 0.9, "weight_decay": 1e-3},
    "words": {"num_embeddings": 300, "embedding_dim": 6, "sparse": True},
}


class Skipgram(nn.Module):
    def __init__(self, table):
        super().__init__()
        self.table = nn.Embedding(**table)
        self.out = nn.Linear(6, 300)

    def forward(self, words):
        return self.out(self.table(words))


torch.manual_seed(0)
words = Skipgram(CONFIG["words"])
optimizer = torch.optim.SGD(words.parameters(), **CONFIG["optimizer"])
for _ in range(3):
    middle, around = torch.randint(0, 300, (2, 16))
    loss = nn.functional.cross_entropy(words(middle), around)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
