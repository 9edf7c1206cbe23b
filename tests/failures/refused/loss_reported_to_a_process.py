# code: BS200
# variable: outbox.send
# cause: outbox.send((step, loss))
# fix: write `outbox.send((step, loss.detach()))`
import torch
import torch.multiprocessing as mp
from torch import nn


def report(outbox, step, loss):
    outbox.send((step, loss))


net = nn.Linear(3, 1)
inbox, outbox = mp.Pipe()
for step in range(2):
    loss = net(torch.randn(4, 3)).square().mean()
    loss.backward()
    report(outbox, step, loss)
