# code: BS200
# variable: self.optimizer
# cause: self.optimizer = torch.optim.Adam(trained, lr=1e-3)
# fix: over self.net.encoder as well
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 4))
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.encoder(x))


class Trainer:
    def __init__(self, warm_up):
        self.net = Net()
        self.unfreeze(self.net.encoder, not warm_up)
        trained = (p for p in self.net.parameters() if p.requires_grad)
        self.optimizer = torch.optim.Adam(trained, lr=1e-3)

    def unfreeze(self, module, on):
        for p in module.parameters():
            p.requires_grad_(on)

    def step(self, x):
        self.optimizer.zero_grad()
        self.net(x).square().mean().backward()
        self.optimizer.step()

    def restore(self, saved):
        self.net.load_state_dict(saved["net"])
        self.optimizer.load_state_dict(saved["optimizer"])


first = Trainer(warm_up=False)
first.step(torch.randn(3, 6))
saved = {"net": first.net.state_dict(), "optimizer": first.optimizer.state_dict()}
trainer = Trainer(warm_up=True)
trainer.restore(saved)
trainer.step(torch.randn(3, 6))
