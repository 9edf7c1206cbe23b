# code: BS201
# variable: plain.backward
# cause: moved.backward()
# fix: (plain + moved).backward()
import torch
from torch import nn

rnn, head = nn.GRUCell(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(2, 4)


class Nudge:
    def __init__(self, held):
        self.held = list(held)

    def _push(self):
        for w in self.held:
            w.mul_(0.99)

    @torch.no_grad()
    def apply(self):
        self._push()


nudge = Nudge([*rnn.parameters(), *head.parameters()])


def update(scores):
    plain = scores.square().mean()
    plain.backward()
    moved = scores.abs().mean()
    moved.backward()


def train():
    nudge.apply()
    out = head(rnn(x))
    update(out)


train()
