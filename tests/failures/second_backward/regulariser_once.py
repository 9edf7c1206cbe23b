# code: BS201
# variable: penalty
# cause: penalty = config["l2"] * sum(p.pow(2).sum() for p in model.parameters())
# fix: inside the loop
import torch
from torch import nn

config = {"l2": 1e-3, "lr": 0.05, "steps": 5, "loss": lambda out, y: nn.functional.mse_loss(out, y)}


def train(model, config):
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"])
    penalty = config["l2"] * sum(p.pow(2).sum() for p in model.parameters())
    for step in range(config["steps"]):
        x = torch.randn(10, 3)
        loss = config["loss"](model(x), x.sum(1, keepdim=True)) + penalty
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


train(nn.Sequential(nn.Linear(3, 6), nn.ELU(), nn.Linear(6, 1)), config)
