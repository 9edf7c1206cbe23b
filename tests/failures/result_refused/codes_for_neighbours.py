# code: BS219
# variable: encoder(part).flatten(1)
# cause: codes.append(encoder(part).flatten(1).numpy())
# fix: encoder(part).flatten(1).detach().numpy()
import numpy as np
import torch
from torch import nn

encoder = nn.Sequential(nn.Conv1d(1, 4, 3), nn.ReLU())
head = nn.Linear(4 * 6, 1)
opt = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.01)


def all_codes(signals):
    codes = []
    for part in signals.split(5):
        codes.append(encoder(part).flatten(1).numpy())
    return np.concatenate(codes)


signals = torch.randn(20, 1, 8)
for epoch in range(2):
    codes = all_codes(signals)
    nearest = ((codes[:, None] - codes[None]) ** 2).sum(-1).argsort(1)[:, 1]
    loss = (head(encoder(signals).flatten(1)) - signals[nearest].mean((1, 2))[:, None]).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
