# code: BS200
# variable: model.gated.norm.weight
# cause: decayed.append(each.weight)
# fix: on line 38, write `groups = {"params": plain}, {"params": [p for p in decayed if all(p is not
import torch
from torch import nn


class Gated(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    @property
    def weight(self):
        return self.norm.weight

    def forward(self, x):
        return torch.sigmoid(self.norm(x)) * x


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.gated, self.last = nn.Linear(3, 8), Gated(8), nn.Linear(8, 1)

    def forward(self, x):
        return self.last(self.gated(self.first(x)))


def optimizer_of(model):
    decayed, plain = [], []
    for each in model.modules():
        if isinstance(each, nn.LayerNorm):
            plain.append(each.weight)
        elif hasattr(each, "weight"):
            decayed.append(each.weight)
    groups = {"params": plain}, {"params": decayed, "weight_decay": 0.1}
    biases = [p for name, p in model.named_parameters() if name.endswith("bias")]
    return torch.optim.AdamW([*groups, {"params": biases, "weight_decay": 0.0}])


model = Model()
optimizer = optimizer_of(model)
model(torch.randn(4, 3)).square().mean().backward()
optimizer.step()
