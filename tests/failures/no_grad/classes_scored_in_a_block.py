# code: BS203
# variable: loss
# cause: return (classes.argmax(1).float() - 1).square()
# fix: remove line 24, `with torch.no_grad():`, and dedent the lines inside it
"""Three cuts on one way: a block, a decorated function that is called in it, and the classes that it gives."""

import torch
from torch import nn

torch.manual_seed(0)


@torch.no_grad()
def classify(net, x):
    return net(x)


def score(net, x):
    classes = classify(net, x)
    return (classes.argmax(1).float() - 1).square()


def run(net, opt):
    with torch.no_grad():
        losses = [score(net, torch.randn(5, 3)).mean() for _ in range(3)]
    loss = torch.stack(losses).mean()
    loss.backward()
    opt.step()


net = nn.Linear(3, 4)
run(net, torch.optim.SGD(net.parameters(), lr=0.1))
