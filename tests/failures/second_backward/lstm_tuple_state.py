# code: BS201
# variable: state
# cause: out, state = lstm(chunk, state)
# fix: detach
import torch
from torch import nn


def chunks(series, length):
    for start in range(0, series.shape[1] - length, length):
        yield series[:, start : start + length], series[:, start + 1 : start + length + 1]


def main(epochs=2, hidden_size=12):
    lstm = nn.LSTM(1, hidden_size, batch_first=True)
    head = nn.Linear(hidden_size, 1)
    params = list(lstm.parameters()) + list(head.parameters())
    opt = torch.optim.SGD(params, lr=0.05)
    series = torch.sin(torch.linspace(0, 20, 40)).view(1, -1, 1)
    for epoch in range(epochs):
        state = (torch.zeros(1, 1, hidden_size), torch.zeros(1, 1, hidden_size))
        for chunk, target in chunks(series, 8):
            out, state = lstm(chunk, state)
            loss = ((head(out) - target) ** 2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()


if __name__ == "__main__":
    main()
