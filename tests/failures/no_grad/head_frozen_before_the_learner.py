# code: BS203
# variable: self.net
# cause: each.requires_grad_(False)
# fix: `encoder.head.requires_grad_(True)`
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(6, width), nn.Tanh())
        self.head = nn.Linear(width, 100)

    def forward(self, x):
        return self.head(self.stem(x))


def for_task(classes):
    encoder = Encoder()
    encoder.head = nn.Linear(encoder.head.in_features, classes)
    for each in encoder.parameters():
        each.requires_grad_(False)
    return encoder


class Learner:
    def __init__(self, net):
        self.net = net
        self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def fit(self, batches):
        for x, y in batches:
            loss = nn.functional.cross_entropy(self.net(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()


def main():
    torch.manual_seed(0)
    batches = [(torch.randn(8, 6), torch.randint(3, (8,))) for _ in range(3)]
    encoder = for_task(3)
    Learner(encoder).fit(batches)


main()
