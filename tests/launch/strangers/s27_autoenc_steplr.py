"""Denoising autoencoder."""
import torch
from torch import nn, optim
from torch.optim.lr_scheduler import StepLR

LR, EPOCHS = 0.05, 12


class DAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(24, 48), nn.ReLU(), nn.Linear(48, 6))
        self.dec = nn.Sequential(nn.Linear(6, 48), nn.ReLU(), nn.Linear(48, 24))

    def forward(self, x):
        return self.dec(self.enc(x + 0.2 * torch.randn_like(x)))


def train_one_epoch(model, data):
    optimizer = optim.Adam(model.parameters(), lr=LR)
    model.train()
    perm = torch.randperm(len(data))
    total = 0.0
    for i in range(0, len(data), 32):
        x = data[perm[i:i + 32]]
        loss = nn.functional.mse_loss(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / (len(data) / 32), optimizer.param_groups[0]['lr']


def main():
    torch.manual_seed(0)
    basis = torch.randn(5, 24)
    data = torch.tanh(torch.randn(640, 5) @ basis)
    model = DAE()
    optimizer = optim.Adam(model.parameters(), lr=LR)
    scheduler = StepLR(optimizer, step_size=3, gamma=0.2)
    for epoch in range(EPOCHS):
        loss, lr = train_one_epoch(model, data)
        scheduler.step()
        print(f'epoch {epoch} loss {loss:.4f} lr {lr}')


main()
