# code: BS202
# variable: states
# cause: states[t + 1] = torch.tanh(self.inner(states[t]) + self.outer(x[t]))
# fix: torch.stack
import torch
from torch import nn


class Recurrence(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.outer = nn.Linear(inputs, width)
        self.inner = nn.Linear(width, width)
        self.width = width

    def forward(self, x):
        states = torch.zeros(len(x) + 1, x.shape[1], self.width)
        for t in range(len(x)):
            states[t + 1] = torch.tanh(self.inner(states[t]) + self.outer(x[t]))
        return states[1:]


def main():
    rnn, head = Recurrence(2, 6), nn.Linear(6, 1)
    optimizer = torch.optim.Adam([*rnn.parameters(), *head.parameters()], lr=1e-3)
    for _ in range(2):
        x = torch.randn(5, 3, 2)
        loss = (head(rnn(x)) - x.sum(-1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
