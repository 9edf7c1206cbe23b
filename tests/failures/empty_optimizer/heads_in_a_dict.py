# code: BS223
# variable: self.model.heads.heads
# cause: self.heads = {}
# fix: nn.ModuleDict
import torch
from torch import nn


class Heads(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.heads = {}
        for name, size in sizes.items():
            self.heads[name] = nn.Linear(16, size)

    def forward(self, x):
        return {name: head(x) for name, head in self.heads.items()}


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.activation = nn.ReLU()
        self.heads = Heads({"age": 1, "kind": 5})

    def forward(self, x):
        return self.heads(self.activation(x))


class Trainer:
    def __init__(self, lr=0.01):
        self.model = MultiTask()
        self.optimizer = self.configure(lr)

    def configure(self, lr):
        return torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9)


Trainer()
