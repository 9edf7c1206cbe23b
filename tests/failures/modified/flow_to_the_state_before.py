# code: BS202
# variable: before
# cause: before = ahead
# fix: put `losses = []` above line 28
import torch
from torch import nn
from torch.nn import functional as F


class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 16), nn.Tanh())
        self.ahead, self.back = nn.Linear(16, 3), nn.Linear(16, 3)

    def forward(self, state):
        h = self.body(state)
        return self.ahead(h).log_softmax(-1), self.back(h).log_softmax(-1)


def reward(state):
    return -(state - 1).square().sum(-1)


def episode(flow, optimizer, length=4):
    state = torch.zeros(8, 3)
    before = chosen = None
    for _ in range(length):
        ahead, back = flow(state)
        if before is not None:
            gap = reward(state) + back.gather(1, chosen).squeeze(1) - before.gather(1, chosen).squeeze(1)
            loss = gap.square().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(flow.parameters(), 1.0)
            optimizer.step()
        chosen = torch.multinomial(ahead.detach().exp(), 1)
        before = ahead
        state = state + F.one_hot(chosen.squeeze(1), 3)


torch.manual_seed(0)
flow = Flow()
optimizer = torch.optim.Adam(flow.parameters(), lr=1e-2)
for _ in range(3):
    episode(flow, optimizer)
