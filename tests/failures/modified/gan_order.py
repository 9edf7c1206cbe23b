# code: BS202
# variable: nets["d"].2.weight | opt["d"]
# cause: opt["d"].step()
# fix: g_loss
import torch
from torch import nn

nets = {
    "g": nn.Sequential(nn.Linear(4, 12), nn.Tanh(), nn.Linear(12, 3)),
    "d": nn.Sequential(nn.Linear(3, 12), nn.Tanh(), nn.Linear(12, 1)),
}
opt = {name: torch.optim.Adam(net.parameters(), lr=1e-3) for name, net in nets.items()}


def softplus(x):
    return nn.functional.softplus(x).mean()


for real in torch.randn(2, 8, 3):
    fake = nets["g"](torch.randn(8, 4))
    d_loss = softplus(-nets["d"](real)) + softplus(nets["d"](fake.detach()))
    g_loss = softplus(-nets["d"](fake))

    opt["d"].zero_grad()
    d_loss.backward()
    opt["d"].step()

    opt["g"].zero_grad()
    g_loss.backward()
    opt["g"].step()
