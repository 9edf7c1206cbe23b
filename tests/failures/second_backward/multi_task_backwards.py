# code: BS201
# variable: losses
# cause: losses[task].backward()
# fix: sum(losses.values()).backward()
import torch
import torch.nn.functional as F
from torch import nn

tasks = {"colour": 4, "shape": 3}
backbone = nn.Sequential(nn.Linear(12, 24), nn.ReLU())
heads = nn.ModuleDict({name: nn.Linear(24, classes) for name, classes in tasks.items()})
optimizer = torch.optim.Adam([*backbone.parameters(), *heads.parameters()])


def train_step(images, labels):
    optimizer.zero_grad()
    features = backbone(images)
    losses = {name: F.cross_entropy(head(features), labels[name]) for name, head in heads.items()}
    for task in losses:
        losses[task].backward()
    optimizer.step()
    return {name: loss.item() for name, loss in losses.items()}


train_step(torch.randn(5, 12), {name: torch.randint(0, n, (5,)) for name, n in tasks.items()})
