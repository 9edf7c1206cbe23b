# code: BS234
# variable: self.scheduler
# cause: self.scheduler = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, max_lr=0.05, total_steps=self.epochs)
# fix: total_steps=self.epochs * len(self.loader)
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, model, data, epochs):
        self.model = model
        self.epochs = epochs
        self.loader = DataLoader(data, batch_size=8)
        self.optimizer = torch.optim.AdamW(model.parameters())
        self.scheduler = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, max_lr=0.05, total_steps=self.epochs)

    def train(self):
        for epoch in range(self.epochs):
            self.train_epoch()

    def train_epoch(self):
        for inputs, targets in self.loader:
            loss = nn.functional.mse_loss(self.model(inputs), targets)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.scheduler.step()


torch.manual_seed(2)
x = torch.randn(24, 4)
trainer = Trainer(nn.Linear(4, 1), TensorDataset(x, x.mean(1, keepdim=True)), epochs=3)
trainer.train()
