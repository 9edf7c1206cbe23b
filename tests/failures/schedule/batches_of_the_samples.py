# code: BS234
# variable: schedule
# cause: schedule = OneCycleLR(optimizer, 0.02, epochs=epochs, steps_per_epoch=len(data) // 32)
# fix: steps_per_epoch=len(train_loader)
import torch
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR
from torch.utils.data import DataLoader, TensorDataset


def train_epoch(net, loader, optimizer, schedule):
    for inputs, labels in loader:
        loss = nn.functional.cross_entropy(net(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()


def main(epochs=3):
    torch.manual_seed(1)
    data = TensorDataset(torch.randn(80, 6), torch.randint(3, (80,)))
    train_loader = DataLoader(data, batch_size=32)
    net = nn.Linear(6, 3)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    schedule = OneCycleLR(optimizer, 0.02, epochs=epochs, steps_per_epoch=len(data) // 32)
    for _ in range(epochs):
        train_epoch(net, train_loader, optimizer, schedule)


main()
