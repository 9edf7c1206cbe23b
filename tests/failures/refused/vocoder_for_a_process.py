# code: BS200
# variable: context.Process(target=train, args=(self.net,)).start
# cause: return nn.utils.weight_norm(layer)
# fix: each forward pass computes weight anew
import warnings

import torch
import torch.multiprocessing as mp
from torch import nn

warnings.filterwarnings("ignore", category=FutureWarning)


def normed(layer):
    return nn.utils.weight_norm(layer)


def train(net):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net(torch.randn(2, 3)).square().mean().backward()
    optimizer.step()


class Farm:
    def __init__(self):
        self.net = nn.Sequential(normed(nn.Linear(3, 4)), nn.Tanh(), nn.Linear(4, 1))

    def run(self):
        context = mp.get_context("spawn")
        context.Process(target=train, args=(self.net,)).start()


if __name__ == "__main__":
    Farm().run()
