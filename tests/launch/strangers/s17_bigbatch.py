"""Effective batch size is raised during training (2 -> 8 micro batches)."""
import torch
import torch.nn as nn
import torch.nn.functional as F

CFG = dict(lr=0.08, momentum=0.8, micro=16, stages=[(0, 1), (80, 8)], updates=160)
torch.manual_seed(0)


def accumulation_for(update):
    k = 1
    for start, n in CFG['stages']:
        if update >= start:
            k = n
    return k


net = nn.Sequential(nn.Linear(30, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 5))
teacher = nn.Sequential(nn.Linear(30, 20), nn.Tanh(), nn.Linear(20, 5))
optimizer = torch.optim.SGD(net.parameters(), lr=CFG['lr'], momentum=CFG['momentum'])


def micro_batch():
    x = torch.randn(CFG['micro'], 30)
    with torch.no_grad():
        y = (teacher(x) + 0.1 * torch.randn(CFG['micro'], 5)).argmax(1)
    return x, y


for update in range(CFG['updates']):
    accum = accumulation_for(update)
    optimizer.zero_grad()
    shown = 0.0
    for _ in range(accum):
        x, y = micro_batch()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        shown += loss.item() / accum
    optimizer.step()
    if update % 20 == 19:
        gn = sum(p.grad.norm() ** 2 for p in net.parameters()) ** 0.5
        print(f'update {update + 1} accum {accum} loss {shown:.3f} grad norm {gn:.2f}')
