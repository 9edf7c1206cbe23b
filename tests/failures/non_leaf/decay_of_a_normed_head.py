# code: BS206
# variable: scorer.head.weight
# cause: decayed.append(model.head.weight)
# fix: model.head.parametrizations.weight.original
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm


class Critic(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, width), nn.ReLU())
        self.head = spectral_norm(nn.Linear(width, 1, bias=False))

    def forward(self, x):
        return self.head(self.body(x))


def groups(model):
    decayed = [each for each in model.body.parameters() if each.dim() > 1]
    decayed.append(model.head.weight)
    rest = [each for each in model.body.parameters() if each.dim() == 1]
    return [{"params": decayed, "weight_decay": 1e-2}, {"params": rest, "weight_decay": 0.0}]


scorer = Critic(12)
optimizer = torch.optim.AdamW(groups(scorer), lr=1e-3)
