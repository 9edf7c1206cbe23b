# code: BS200
# variable: reader.read.weight
# cause: self.guess.weight = self.read.weight
# fix: torch.optim.AdamW([*rest, reader.read.weight], lr=0.01)
import torch
from torch import nn


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.read = nn.Embedding(20, 6, sparse=True)
        self.place = nn.Embedding(9, 6, sparse=True)
        self.mix = nn.Linear(6, 6)
        self.guess = nn.Linear(6, 20, bias=False)
        self.guess.weight = self.read.weight

    def forward(self, ids):
        x = self.read(ids) + self.place(torch.arange(ids.shape[1]))
        return self.guess(torch.relu(self.mix(x.cumsum(dim=1))))


torch.manual_seed(0)
reader = Reader()
tables = [p for name, p in reader.named_parameters() if not name.startswith("mix")]
rest = [p for name, p in reader.named_parameters() if name.startswith("mix")]
by_row = torch.optim.SparseAdam(tables, lr=0.01)
others = torch.optim.AdamW(rest, lr=0.01)
ids = torch.randint(0, 20, (8, 9))
for step in range(4):
    loss = nn.functional.cross_entropy(reader(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    by_row.zero_grad()
    others.zero_grad()
    loss.backward()
    by_row.step()
    others.step()
