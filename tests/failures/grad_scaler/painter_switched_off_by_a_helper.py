# code: BS224
# variable: painter is frozen
# cause: trainable(painter, False)
# fix: painter.requires_grad_(True) before the forward pass
# unsure: it may be frozen on purpose
import torch
from torch import nn


def trainable(net, on):
    for p in net.parameters():
        p.requires_grad_(on)


def step(scaler, optimizer, loss):
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)


def update_critic(painter, critic, optimizer, scaler, photos):
    trainable(painter, False)
    trainable(critic, True)
    fake = painter(torch.randn(len(photos), 4))
    step(scaler, optimizer, critic(fake).mean() - critic(photos).mean())


def update_painter(painter, critic, optimizer, scaler, size):
    step(scaler, optimizer, torch.relu(1 - critic(painter(torch.randn(size, 4)))).mean())
    scaler.update()


painter, critic = nn.Linear(4, 6), nn.Linear(6, 1)
painting = torch.optim.Adam(painter.parameters(), lr=1e-3)
judging = torch.optim.Adam(critic.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu")
for _ in range(2):
    update_critic(painter, critic, judging, scaler, torch.rand(3, 6))
    update_painter(painter, critic, painting, scaler, 3)
