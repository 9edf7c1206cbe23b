# code: BS213
# variable: model.projection.weight
# cause: def forward(self, x):
# fix: projection
import torch
from torch import nn


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.classifier = nn.Linear(8, 2)
        self.projection = nn.Linear(8, 3)

    def forward(self, x):
        return self.classifier(torch.relu(self.body(x)))


model = TwoHeads()
loss = nn.functional.cross_entropy(model(torch.randn(4, 4)), torch.tensor([0, 1, 0, 1]))
loss.backward()
norms = {name: p.grad.norm().item() for name, p in model.named_parameters()}
