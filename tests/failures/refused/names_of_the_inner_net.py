# code: BS200
# variable: functional_call(model, faster, (x,), strict=True)
# cause: print(functional_call(model, faster, (x,), strict=True))
# fix: {f'body.{k}': v for k, v in faster.items()}
import torch
from torch import nn
from torch.func import functional_call


class Wrapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(2, 1)

    def forward(self, x):
        return self.body(x).tanh()


model, x = Wrapped(), torch.ones(1, 2)
faster = {name: p * 0.9 for name, p in model.body.named_parameters()}
print(functional_call(model, faster, (x,), strict=True))
