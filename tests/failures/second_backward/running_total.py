# code: BS201
# variable: total_loss
# cause: total_loss += criterion(model(x), y) / len(loader)
# fix: once
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def run_epoch(model, loader, criterion, optimizer):
    total_loss = 0.0
    for x, y in loader:
        total_loss += criterion(model(x), y) / len(loader)
        optimizer.zero_grad()
        total_loss.backward()
        optimizer.step()
    return float(total_loss)


torch.manual_seed(1)
dataset = TensorDataset(torch.randn(24, 5), torch.randint(0, 3, (24,)))
net = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 3))
run_epoch(net, DataLoader(dataset, batch_size=8), nn.CrossEntropyLoss(), torch.optim.SGD(net.parameters(), lr=0.1))
