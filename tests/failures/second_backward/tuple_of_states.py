# code: BS201
# variable: state
# cause: y, state = self.lstm(x, state)
# fix: state = tuple(h.detach() for h in state)
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.out = nn.LSTM(1, 8, batch_first=True), nn.Linear(8, 1)

    def forward(self, x, state):
        y, state = self.lstm(x, state)
        return self.out(y), state


def half_detached(state):
    hidden, cell = state
    return hidden.detach(), cell


net = Net()
optimizer = torch.optim.Adam(net.parameters())
state = torch.zeros(1, 4, 8), torch.zeros(1, 4, 8)
for _ in range(3):
    state = half_detached(state)
    predicted, state = net(torch.randn(4, 5, 1), state)
    optimizer.zero_grad()
    predicted.square().mean().backward()
    optimizer.step()
