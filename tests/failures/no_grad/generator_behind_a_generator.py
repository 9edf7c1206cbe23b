# code: BS203
# variable: loss
# cause: with torch.no_grad():
# fix: above line 10
import itertools
import torch
from torch import nn


def crops(pictures, size):
    with torch.no_grad():
        for picture in pictures:
            at = torch.randint(0, picture.shape[-1] - size, ()).item()
            yield picture[..., at : at + size]


def batched(parts, number):
    while batch := list(itertools.islice(parts, number)):
        yield torch.stack(batch)


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def fit(self, pictures):
        for number, batch in enumerate(batched(crops(pictures, 4), 2)):
            loss = (self.model(batch) - batch).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            print(number, loss.item())


Trainer(nn.Sequential(nn.Linear(4, 2), nn.Linear(2, 4))).fit(torch.randn(6, 1, 9))
