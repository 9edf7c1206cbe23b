# code: BS200
# variable: last_epoch
# cause: schedule = torch.optim.lr_scheduler.StepLR(optimizer, 4, last_epoch=checkpoint["epoch"])
# fix: optimizer.load_state_dict(checkpoint["optimizer"])
# unsure: whether it is a training to resume is not known
"""A schedule goes on where a checkpoint ended that has the weights, and nothing of the optimizer."""

import io

import torch
from torch import nn

torch.manual_seed(0)


def trained(net, optimizer, schedule, epochs):
    for _ in range(epochs):
        x = torch.randn(8, 3)
        loss = (net(x) - x.sum(1, keepdim=True)).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()


net = nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.5)
trained(net, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 4), 5)
file = io.BytesIO()
torch.save({"epoch": 5, "net": net.state_dict()}, file)
file.seek(0)

checkpoint = torch.load(file)
net = nn.Linear(3, 1)
net.load_state_dict(checkpoint["net"])
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.5)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 4, last_epoch=checkpoint["epoch"])
trained(net, optimizer, schedule, 5)
