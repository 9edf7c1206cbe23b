"""A training in which something may change at step 6: `python later.py WHAT`; `other` is another order of sums."""

import copy
import sys

import torch
from torch import nn

WHAT = set(sys.argv[1:])
LATE, STEPS = 6, 9

torch.manual_seed(0)
if "unseeded" in WHAT:
    unseeded = torch.Generator()
    unseeded.seed()
model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Dropout(0.2), nn.Linear(16, 1))
ema = copy.deepcopy(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.0)
x = torch.randn(48, 8, generator=torch.Generator().manual_seed(1))
y = x[:, :1].square() + x[:, 1:2]


def lr(step):
    return 0.01 * min(1.0, (step + 1) / LATE) if "warmup" in WHAT and step >= LATE else 0.01 * (step + 1) / LATE


def backward(prediction, target):
    """Go backward from the loss; `other` by parts, so that gradients are summed in another order."""
    if "other" in WHAT:
        for p, t in zip(prediction.chunk(3), target.chunk(3), strict=True):
            ((p - t).square().sum() / len(prediction)).backward(retain_graph=True)
    else:
        (prediction - target).square().mean().backward()


order = torch.arange(48)
for step in range(STEPS):
    if step == LATE:
        saved = {name: value.clone() for name, value in model.state_dict().items()}
        model.load_state_dict(ema.state_dict())
        model.eval()
        with torch.no_grad():
            model(x)
        if "ema" not in WHAT:
            model.load_state_dict(saved)
        if "eval" not in WHAT:
            model.train()
        if "decay" in WHAT:
            optimizer.param_groups[0]["weight_decay"] = 0.1
        if "order" in WHAT:
            order = order.flip(0)
        if "unseeded" in WHAT:
            order = torch.randperm(48, generator=unseeded)
    for group in optimizer.param_groups:
        group["lr"] = lr(step)
    batch = order[torch.arange(16) + 16 * (step % 3)]
    optimizer.zero_grad()
    backward(model(x[batch]), y[batch])
    optimizer.step()
    with torch.no_grad():
        for slow, fast in zip(ema.parameters(), model.parameters(), strict=True):
            slow.lerp_(fast, 0.1)
