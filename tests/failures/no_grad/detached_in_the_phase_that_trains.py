# code: BS203
# variable: loss
# cause: out = model(x).detach()
# fix: without .detach()
import torch
from torch import nn

model = nn.Linear(4, 2)
opt = torch.optim.SGD(model.parameters(), lr=0.1)


def run_epoch(phase):
    for _ in range(2):
        x, y = torch.randn(8, 4), torch.randint(0, 2, (8,))
        with torch.set_grad_enabled(phase == "train"):
            out = model(x).detach()
            loss = nn.functional.cross_entropy(out, y)
            if phase == "train":
                opt.zero_grad()
                loss.backward()
                opt.step()


for phase in ("val", "train"):
    run_epoch(phase)
