# code: BS201
# variable: state
# cause: state = (state @ mix).tanh()
# fix: state = state.detach()
import torch
from torch import nn

rnn, head = nn.GRUCell(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(2, 4)
from types import SimpleNamespace

mix = torch.eye(4).requires_grad_()


def states():
    state = torch.zeros(2, 4)
    while True:
        state = (state @ mix).tanh()
        yield state * 1


drawn = states().__next__

for step in range(2):
    out = SimpleNamespace(scores=head(rnn(x + drawn())).squeeze(-1))
    loss = out.scores.pow(2).mean()
    loss.backward()
