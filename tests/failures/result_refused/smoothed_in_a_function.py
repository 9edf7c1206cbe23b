# code: BS219
# variable: signal
# cause: signal.requires_grad = True
# fix: signal = signal.detach().requires_grad_()
import torch
from torch import nn

torch.manual_seed(0)
critic = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 1))
opt = torch.optim.Adam(critic.parameters(), lr=1e-2)


def climb(signal, rounds):
    signal = signal + 0.01 * torch.randn_like(signal)
    while rounds > 0:
        signal.requires_grad = True
        (slope,) = torch.autograd.grad(critic(signal).sum(), signal)
        signal = signal + 0.1 * slope.sign()
        rounds -= 1
    return signal.detach()


real = torch.randn(16, 10)
for step in range(3):
    made = climb(torch.zeros(16, 10), rounds=4)
    loss = critic(made).mean() - critic(real).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
