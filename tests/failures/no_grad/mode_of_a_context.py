# code: BS203
# variable: loss
# cause: model.was_training, enabled = model.training, torch.is_grad_enabled()
# fix: above line 13
import contextlib

import torch
from torch import nn


@contextlib.contextmanager
def probing(model):
    torch.set_grad_enabled(False)
    model.was_training, enabled = model.training, torch.is_grad_enabled()
    yield model.eval()
    torch.set_grad_enabled(enabled)
    model.train(model.was_training)


model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.AdamW(model.parameters())
for epoch in range(3):
    x = torch.randn(8, 4)
    with probing(model) as probed:
        print(epoch, probed(x).std().item())
    loss = (model(x) - x.norm(dim=1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
