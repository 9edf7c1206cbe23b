"""Curve fit with LBFGS."""
import torch
from torch import nn, optim

torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
x = torch.linspace(-2, 2, 120)[:, None]
y = torch.sin(3 * x) * torch.exp(-x ** 2 / 2) + 0.02 * torch.randn_like(x)


class Fit(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(1, 25)
        self.out = nn.Linear(25, 1)

    def forward(self, t):
        return self.out(torch.tanh(self.hidden(t)))


net = Fit()
opt = optim.LBFGS(net.parameters(), lr=0.5, max_iter=5, history_size=20)
history = []


def closure():
    loss = ((net(x) - y) ** 2).mean()
    loss.backward()
    opt.zero_grad()
    history.append(loss.item())
    return loss


for epoch in range(60):
    opt.step(closure)
    if epoch % 15 == 0 or epoch == 59:
        print(f'epoch {epoch:3d} mse {history[-1]:.6f} evals {len(history)}')
