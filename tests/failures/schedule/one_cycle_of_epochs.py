# code: BS234
# variable: scheduler
# cause: scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.05, total_steps=epochs)
# fix: total_steps=epochs * len(loader)
# or: scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, epochs)
# or: scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, epochs=epochs, steps_per_epoch=1)
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(48, 8)
loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=16, shuffle=True)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
epochs = 4
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.05, total_steps=epochs)

for epoch in range(epochs):
    for inputs, targets in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        scheduler.step()
