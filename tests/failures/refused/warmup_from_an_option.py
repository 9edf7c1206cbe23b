# code: BS200
# variable: initial_lr
# cause: options.begun = 0
# fix: options.begun = -1
import math
from types import SimpleNamespace

import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler


class Warmup(LRScheduler):
    def __init__(self, optimizer, steps, last_epoch=-1):
        self.steps = steps
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return [each * math.sqrt(min(1.0, (self.last_epoch + 1) / self.steps)) for each in self.base_lrs]


def main(options):
    model = nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    if options.checkpoint:
        saved = torch.load(options.checkpoint)
        optimizer.load_state_dict(saved["optimizer"])
        options.begun = saved["step"]
    else:
        options.begun = 0
    scheduler = Warmup(optimizer, 20, last_epoch=options.begun)
    for _ in range(5):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
        scheduler.step()


main(SimpleNamespace(checkpoint="", begun=None))
