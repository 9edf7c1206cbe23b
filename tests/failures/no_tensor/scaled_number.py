# code: BS222
# variable: loss
# cause: return {"loss": loss.item(), "logits": logits.detach()}
# fix: "loss": loss
import torch
from torch import nn

model = nn.Linear(4, 3)
scaler = torch.amp.GradScaler("cpu")


def step(x, y):
    logits = model(x)
    loss = nn.functional.cross_entropy(logits, y)
    return {"loss": loss.item(), "logits": logits.detach()}


loss = step(torch.randn(8, 4), torch.randint(3, (8,)))["loss"]
scaler.scale(loss).backward()
