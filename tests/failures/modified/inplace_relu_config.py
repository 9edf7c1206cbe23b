# code: BS202
# variable: model.layers.5
# cause: x = layer(x)
# fix: inplace=True
import torch
from torch import nn

ACTIVATIONS = {
    "relu": lambda: nn.ReLU(inplace=True),
    "gelu": lambda: nn.GELU(),
    "tanh": lambda: nn.Tanh(),
    "sigmoid": lambda: nn.Sigmoid(),
}


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        layers = []
        for a, b in zip(config["sizes"], config["sizes"][1:]):
            layers.append(nn.Linear(a, b))
            layers.extend(ACTIVATIONS[name]() for name in config["activations"])
        self.layers = nn.ModuleList(layers)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


model = MLP({"sizes": [5, 8, 3], "activations": ["sigmoid", "relu"]})
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loss = nn.functional.cross_entropy(model(torch.randn(7, 5)), torch.randint(0, 3, (7,)))
loss.backward()
optimizer.step()
