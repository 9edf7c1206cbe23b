# code: BS213
# variable: encoder.weight
# cause: z = encoder(x).detach()
# fix: detach
import torch
from torch import nn

encoder, decoder = nn.Linear(6, 2), nn.Linear(2, 6)


def clip(parameters, most):
    total = torch.sqrt(sum((p.grad**2).sum() for p in parameters))
    for p in parameters:
        p.grad.mul_(min(1.0, most / float(total)))


x = torch.randn(5, 6)
z = encoder(x).detach()
loss = (decoder(z) - x).square().mean()
loss.backward()
clip([*encoder.parameters(), *decoder.parameters()], most=1.0)
