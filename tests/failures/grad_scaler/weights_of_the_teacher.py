# code: BS224
# variable: self.optimizer
# cause: engine.net = deepcopy(teacher)
# fix: write `engine.net.load_state_dict(teacher.state_dict())`
from copy import deepcopy

import torch
from torch import nn

torch.manual_seed(0)


class Engine:
    def __init__(self, net):
        self.net = net
        self.optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        self.scaler = torch.amp.GradScaler("cpu")

    def fit(self, x, y):
        loss = nn.functional.mse_loss(self.net(x), y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()


teacher = nn.Linear(4, 1)
engine = Engine(nn.Linear(4, 1))
engine.net = deepcopy(teacher)
engine.fit(torch.randn(8, 4), torch.randn(8, 1))
