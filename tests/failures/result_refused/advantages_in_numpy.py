# code: BS219
# variable: value
# cause: est = estimates.numpy()
# fix: estimates.detach().numpy()`: the result enters the loss as a constant
import numpy as np
import torch
from torch import nn

torch.manual_seed(0)

pi, vf = nn.Linear(3, 2), nn.Linear(3, 1)
opt = torch.optim.Adam([*pi.parameters(), *vf.parameters()], lr=1e-2)


def targets(rewards, estimates):
    est = estimates.numpy()
    out = np.zeros(len(rewards), dtype=np.float32)
    for t in range(len(rewards)):
        out[t] = rewards[t] - est[t]
    return torch.as_tensor(out)


for it in range(3):
    s = torch.randn(8, 3)
    dist = torch.distributions.Categorical(logits=pi(s))
    a = dist.sample()
    value = vf(s).squeeze(1)
    advantage = targets(np.random.rand(8), value)
    surrogate = -(dist.log_prob(a) * advantage).mean()
    total = surrogate + 0.5 * (value - 1).square().mean()
    opt.zero_grad()
    total.backward()
    opt.step()
