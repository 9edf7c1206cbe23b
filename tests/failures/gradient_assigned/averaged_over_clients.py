# code: BS208
# variable: server.model.head.bias | self.model.head.bias
# cause: self.weights = [model.get_parameter(name) for name in sorted(dict(model.named_parameters()))]
# fix: for weight, update in zip(self.model.parameters(), mean):
import copy

import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Linear(6, 12)
        self.norm = nn.LayerNorm(12)
        self.head = nn.Linear(12, 3)

    def forward(self, x):
        return self.head(self.norm(self.stem(x)).relu())


class Server:
    """Takes one step along the mean of the clients' gradients."""

    def __init__(self, model):
        self.model = model
        self.weights = [model.get_parameter(name) for name in sorted(dict(model.named_parameters()))]
        self.optimizer = torch.optim.SGD(self.weights, lr=0.1)

    def step(self, gradients):
        mean = [torch.stack(each).mean(0) for each in zip(*gradients)]
        for weight, update in zip(self.weights, mean):
            weight.grad = update
        self.optimizer.step()


def client(model, x, y):
    local = copy.deepcopy(model)
    loss = nn.functional.cross_entropy(local(x), y)
    return torch.autograd.grad(loss, list(local.parameters()))


torch.manual_seed(0)
server = Server(Classifier())
for _ in range(2):
    batches = [(torch.randn(5, 6), torch.randint(0, 3, (5,))) for _ in range(3)]
    server.step([client(server.model, *each) for each in batches])
