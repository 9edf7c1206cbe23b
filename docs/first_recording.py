"""The recording that the README shows."""

import subprocess
import sys
import tempfile

import torch
from torch import nn

import backsight as bs

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)

with tempfile.TemporaryDirectory() as folder:
    with bs.record(model, optimizer, run=f"{folder}/runs/first"):
        for _ in range(200):
            x = torch.randn(64, 4)
            loss = nn.functional.mse_loss(model(x), x.prod(dim=1, keepdim=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    subprocess.run([sys.executable, "-m", "backsight", "runs", "show", "first"], cwd=folder, check=True)
