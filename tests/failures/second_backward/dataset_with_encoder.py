# code: BS201
# variable: dataset.items | self.items
# cause: self.items = [self.encoder(x) for x in raw]
# fix: no_grad
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class EncodedDataset(Dataset):
    """Encodes every sample once, so that the loader only has to look them up."""

    def __init__(self, raw, labels, encoder):
        self.encoder = encoder
        self.items = [self.encoder(x) for x in raw]
        self.labels = labels

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index], self.labels[index]


def collate(samples):
    return torch.stack([x for x, _ in samples]), torch.stack([y for _, y in samples])


encoder = nn.Sequential(nn.Linear(7, 9), nn.Sigmoid())
head = nn.Linear(9, 2)
dataset = EncodedDataset(torch.randn(8, 7), torch.randint(0, 2, (8,)), encoder)
optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in DataLoader(dataset, batch_size=4, shuffle=False, collate_fn=collate):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(head(x), y)
        loss.backward()
        optimizer.step()
