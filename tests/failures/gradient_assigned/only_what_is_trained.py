# code: BS208
# variable: body.0.weight
# cause: for weight, slope in zip(body.parameters(), slopes):
# fix: zip([p for p in body.parameters() if p.requires_grad], slopes)
import torch
from torch import nn

torch.manual_seed(0)
body = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 2))
body[0].weight.requires_grad_(False)
trained = [p for p in body.parameters() if p.requires_grad]
optimizer = torch.optim.Adam(trained, lr=1e-3)
for _ in range(2):
    loss = body(torch.randn(9, 5)).abs().mean()
    slopes = torch.autograd.grad(loss, trained)
    for weight, slope in zip(body.parameters(), slopes):
        weight.grad = slope
    optimizer.step()
