# code: BS201
# variable: self.state | model.state
# cause: self.state = (h.detach(), c)
# fix: detach()
import torch
from torch import nn


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(1, 6, batch_first=True)
        self.out = nn.Linear(6, 1)
        self.state = None

    def reset(self, batch):
        self.state = (torch.zeros(1, batch, 6), torch.zeros(1, batch, 6))

    def carry(self, state):
        h, c = state
        self.state = (h.detach(), c)

    def forward(self, x):
        y, state = self.rnn(x, self.state)
        self.carry(state)
        return self.out(y)


def fit_chunk(model, optimizer, x):
    loss = (model(x[:, :-1]) - x[:, 1:]).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


model = Forecaster()
optimizer = torch.optim.Adam(model.parameters())
model.reset(3)
series = torch.randn(3, 33, 1)
for start in range(0, 32, 8):
    fit_chunk(model, optimizer, series[:, start : start + 9])
