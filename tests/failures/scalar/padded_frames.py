# code: BS212
# variable: loss
# cause: return (error * valid).sum(1) / valid.sum(1)
# fix: loss = loss.mean()
import torch
from torch import nn

gru = nn.GRU(3, 8, batch_first=True)
out = nn.Linear(8, 3)
opt = torch.optim.Adam([*gru.parameters(), *out.parameters()], lr=1e-2)


def frame_loss(prediction, frames, valid):
    error = nn.functional.l1_loss(prediction, frames, reduction="none").mean(2)
    return (error * valid).sum(1) / valid.sum(1)


for _ in range(3):
    frames = torch.randn(6, 9, 3)
    lengths = torch.randint(2, 9, (6, 1))
    valid = (torch.arange(8)[None] < lengths).float()
    loss = frame_loss(out(gru(frames[:, :-1])[0]), frames[:, 1:], valid)
    opt.zero_grad()
    loss.backward()
    opt.step()
