# code: BS201
# variable: kept[0]
# cause: kept[0] = (kept[0] @ mix).tanh()
# fix: kept[0] = kept[0].detach()
import torch
from torch import nn

rnn, head = nn.GRUCell(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*rnn.parameters(), *head.parameters()], lr=0.1)
x = torch.randn(2, 4)
from types import SimpleNamespace

mix = torch.eye(4).requires_grad_()


def drawn(kept=[torch.zeros(2, 4)]):
    kept[0] = (kept[0] @ mix).tanh()
    return kept[0] * 1


for step in range(2):
    out = SimpleNamespace(scores=head(rnn(x + drawn())).squeeze(-1))
    loss = out.scores.pow(2).mean()
    loss.backward()
