# code: BS219
# variable: self.losses
# cause: return np.mean(np.array(self.losses))
# fix: on line 21, write `self.losses.append(loss.detach())`
import numpy as np
import torch
from torch import nn


class Learner:
    def __init__(self):
        self.net, self.losses = nn.Linear(3, 1), []
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def learn(self, x):
        self.optimizer.zero_grad()
        loss = self.net(x).square().mean()
        loss.backward()
        self.optimizer.step()
        # for the plot
        self.losses.append(loss)

    def plotted(self):
        return np.mean(np.array(self.losses))


learner = Learner()
for _ in range(3):
    learner.learn(torch.randn(4, 3))
learner.plotted()
