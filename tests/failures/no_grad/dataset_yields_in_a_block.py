# code: BS203
# variable: loss
# cause: with torch.no_grad(), torch.random.fork_rng():
# fix: @torch.no_grad()
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class Noisy(IterableDataset):
    def __init__(self, clean):
        self.clean = clean

    def __iter__(self):
        with torch.no_grad(), torch.random.fork_rng():
            torch.manual_seed(3)
            for row in self.clean:
                yield row + 0.1 * torch.randn_like(row), row


model = nn.Sequential(nn.Linear(6, 3), nn.ReLU(), nn.Linear(3, 6))
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(Noisy(torch.randn(20, 6)), batch_size=5)
for noisy, clean in loader:
    loss = (model(noisy) - clean).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
