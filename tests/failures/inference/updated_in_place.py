# code: BS214
# variable: self.average[name]
# cause: @torch.inference_mode()
# fix: no_grad
import torch
from torch import nn


class Averager:
    @torch.inference_mode()
    def __init__(self, model, decay=0.99):
        self.decay = decay
        self.average = {name: p.clone() for name, p in model.named_parameters()}

    def update(self, model):
        for name, p in model.named_parameters():
            self.average[name].mul_(self.decay).add_(p.detach(), alpha=1 - self.decay)


model = nn.Linear(3, 2)
ema = Averager(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = model(torch.randn(4, 3)).square().sum()
loss.backward()
optimizer.step()
ema.update(model)
