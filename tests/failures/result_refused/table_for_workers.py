# code: BS219
# variable: inputs
# cause: features = torch.rand(size, 3, requires_grad=True)
# fix: On line 12, write `features = torch.rand(size, 3)`
# unsure: the worker's variables are in another process
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


def table_of(size):
    features = torch.rand(size, 3, requires_grad=True)
    return features, features.detach().sum(1)


def fit(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        (model(x).squeeze(1) - y).square().mean().backward()
        optimizer.step()


if __name__ == "__main__":
    inputs, targets = table_of(12)
    train, _ = random_split(TensorDataset(inputs, targets), [8, 4])
    fit(nn.Linear(3, 1), DataLoader(train, batch_size=4, num_workers=1))
