# code: BS200
# variable: memory
# cause: loss, memory = step(series, memory)
# fix: write `batches = DataLoader(Windows(40), batch_size=12, drop_last=True)`
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Windows(Dataset):
    def __init__(self, count):
        self.values = torch.sin(torch.arange(count * 10) / 7.0).reshape(count, 10, 1)

    def __len__(self):
        return len(self.values)

    def __getitem__(self, index):
        return self.values[index]


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(1, 8)
        self.out = nn.Linear(8, 1)

    def forward(self, series, hidden):
        features, hidden = self.rnn(series, hidden)
        return self.out(features), hidden


model = Forecaster()
optimizer = torch.optim.Adam(model.parameters())


def step(series, memory):
    steps = series.transpose(0, 1)
    prediction, memory = model(steps[:-1], memory)
    loss = (prediction - steps[1:]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item(), memory.detach()


def train(batches):
    memory = None
    for series in batches:
        loss, memory = step(series, memory)


batches = DataLoader(Windows(40), batch_size=12)
train(batches)
