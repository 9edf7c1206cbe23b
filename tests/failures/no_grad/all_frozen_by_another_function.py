# code: BS203
# variable: self.net
# cause: weight.requires_grad = False
# fix: model[2].requires_grad_(True) for the last layer alone
import torch
from torch import nn


def pretrained():
    model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 3))
    for weight in model.parameters():
        weight.requires_grad = False
    return model


def learner():
    model = pretrained()
    return Learner(model)


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


torch.manual_seed(0)
learner().fit([(torch.randn(8, 6), torch.randint(3, (8,))) for _ in range(3)])
