"""A loop with Accelerate, recorded and released."""

import tempfile

import torch
from accelerate import Accelerator
from torch import nn

import backsight as bs

torch.manual_seed(0)
accelerator = Accelerator(cpu=True)
model = nn.Sequential(nn.Linear(4, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh(), nn.Linear(256, 1))
model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=1e-3))

with tempfile.TemporaryDirectory() as folder, bs.record(model, optimizer, run=f"{folder}/first"):
    release = bs.release(optimizer, bucket="64KB")  # the optimizer inside
    release.clip(1.0)  # in place of accelerator.clip_grad_norm_
    for _ in range(50):
        x = torch.randn(64, 4)
        loss = nn.functional.mse_loss(model(x), x.prod(dim=1, keepdim=True))
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    print(bs.audit(nn.functional.mse_loss(model(x), x.prod(dim=1, keepdim=True)), optimizer=optimizer))
