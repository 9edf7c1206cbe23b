# code: BS224
# variable: scaler.step(of_maker)
# cause: if step % 2:
# fix: if any(p.grad is not None
import torch
from torch import nn

torch.manual_seed(0)
maker, judge = nn.Linear(2, 2), nn.Linear(2, 1)
of_maker, of_judge = (torch.optim.Adam(net.parameters()) for net in (maker, judge))
scaler = torch.amp.GradScaler("cpu")


def play(step, real):
    fake = maker(torch.randn(4, 2))
    of_judge.zero_grad()
    scaler.scale(judge(fake.detach()).mean() - judge(real).mean()).backward()
    scaler.step(of_judge)
    of_maker.zero_grad()
    if step % 2:
        scaler.scale(-judge(fake).mean()).backward()
    scaler.step(of_maker)
    scaler.update()


for step in range(2):
    play(step, torch.randn(4, 2))
