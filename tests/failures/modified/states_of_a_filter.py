# code: BS202
# variable: hidden
# cause: hidden[:, t] = gate * hidden[:, t - 1] + (1 - gate) * torch.tanh(self.inp(x[:, t]))
# fix: parts.append(
import torch
from torch import nn


class Filter(nn.Module):
    def __init__(self, n_in, n):
        super().__init__()
        self.n = n
        self.inp, self.rec, self.out = nn.Linear(n_in, n), nn.Linear(n, n), nn.Linear(n, 1)

    def forward(self, x):
        hidden = torch.zeros(x.shape[0], x.shape[1], self.n)
        hidden[:, 0] = torch.tanh(self.inp(x[:, 0]))
        for t in range(1, x.shape[1]):
            gate = torch.sigmoid(self.rec(hidden[:, t - 1]))
            hidden[:, t] = gate * hidden[:, t - 1] + (1 - gate) * torch.tanh(self.inp(x[:, t]))
        return self.out(hidden).squeeze(-1)


torch.manual_seed(0)
model = Filter(2, 12)
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
for k in range(40):
    x = torch.randn(16, 10, 2)
    y = x[..., 0].cumsum(1)
    loss = (model(x) - y).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
