# code: BS223
# variable: model.layers
# cause: self.layers = [nn.Linear(d, 8), torch.tanh, nn.Linear(8, d)]
# fix: self.layers_modules = nn.ModuleList(one for one in self.layers if isinstance(one, nn.Module))
import torch
from torch import nn


class Mix(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.layers = [nn.Linear(d, 8), torch.tanh, nn.Linear(8, d)]
        self.heads = {0: nn.Linear(d, 1), 1: nn.Linear(d, 1)}

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.heads[0](x) + self.heads[1](x)


torch.manual_seed(0)
model = Mix(6)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(16, 6)
for step in range(3):
    loss = (model(x) - x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
