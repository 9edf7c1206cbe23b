# code: BS201
# variable: pairs
# cause: pairs = [(field, target), (field.flip(0), target.flip(0))]
# fix: target = torch.sigmoid(field * gain).detach()
import torch

torch.manual_seed(0)
field = torch.randn(8)
gain = torch.full((1,), 2.0, requires_grad=True)
target = torch.sigmoid(field * gain)
pairs = [(field, target), (field.flip(0), target.flip(0))]
weight = torch.zeros(1, requires_grad=True)
for step in range(3):
    for inputs, wanted in pairs:
        loss = (torch.sigmoid(inputs * weight) - wanted).square().sum()
        loss.backward()
        with torch.no_grad():
            weight -= 0.1 * weight.grad
            weight.grad = None
