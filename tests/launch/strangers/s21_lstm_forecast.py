"""Load forecasting with an LSTM; after a few epochs the predictions are kept for the final plot."""
import resource
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
SEQ, PLOT_FROM = 48, 3


class Forecaster(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.rnn = nn.LSTM(1, hidden, batch_first=True)
        self.fc = nn.Linear(hidden, 1)

    def forward(self, x):
        out, _ = self.rnn(x)
        return self.fc(out[:, -1])


t = torch.arange(1500, dtype=torch.float32)
series = torch.sin(t / 8) + 0.4 * torch.sin(t / 37) + 0.05 * torch.randn(1500)
win = series.unfold(0, SEQ + 1, 1)
x, y = win[:, :SEQ, None].contiguous(), win[:, SEQ:].contiguous()
train = DataLoader(TensorDataset(x[:640], y[:640]), 32, shuffle=True)
val_x, val_y = x[1000:1064], y[1000:1064]

model = Forecaster()
opt = torch.optim.Adam(model.parameters(), lr=3e-3)
loss_fn = nn.MSELoss()
kept = []
for epoch in range(8):
    tot = 0.0
    for xb, yb in train:
        opt.zero_grad()
        loss = loss_fn(model(xb), yb)
        loss.backward()
        opt.step()
        tot += loss.item()
        if epoch >= PLOT_FROM:
            kept.append(model(val_x))
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f'epoch {epoch}: train mse {tot / len(train):.4f}  kept {len(kept)}  max rss {rss} MB')
spread = torch.stack(kept[-5:]).std(0).mean().item()
print('spread of the last predictions', round(spread, 4))
