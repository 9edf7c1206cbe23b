# code: BS200
# variable: param 'initial_lr' is not specified
# cause: begun = 3
# fix: write `states = {"model": model.state_dict(), "sgd": sgd.state_dict()}`
# unsure: whether it is a training to resume is not known
import torch
from torch import nn

model = nn.Linear(3, 1)
sgd = torch.optim.SGD(model.parameters(), lr=0.1)
decay = torch.optim.lr_scheduler.ExponentialLR(sgd, 0.9)
for _ in range(3):
    model(torch.randn(4, 3)).square().mean().backward()
    sgd.step()
    decay.step()
states = {"model": model.state_dict()}

begun = 3
model = nn.Linear(3, 1)
sgd = torch.optim.SGD(model.parameters(), lr=0.1)
model.load_state_dict(states["model"])
decay = torch.optim.lr_scheduler.ExponentialLR(sgd, 0.9, begun)
for _ in range(3):
    model(torch.randn(4, 3)).square().mean().backward()
    sgd.step()
    decay.step()
