"""A training that keeps more than it wants to."""

import torch

import backsight as bs

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(128, 128), torch.nn.ReLU(), torch.nn.Linear(128, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


class Meter:
    def __init__(self):
        self.values = []
        self.sum = 0.0

    def update(self, value):
        self.values.append(value)
        self.sum += value.mean().item()


def train(steps):
    meter, history = Meter(), []
    for _ in range(steps):
        prediction = model(torch.randn(32, 128))
        loss = prediction.square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss)
    for _ in range(10):
        meter.update(model(torch.randn(32, 128)))
    del loss, prediction
    print(bs.graphs())


train(30)
