# code: BS201
# variable: targets
# cause: inputs, targets = sampled(60)
# fix: rule = torch.randn(3, 1)
import torch


def sampled(n):
    rule = torch.randn(3, 1, requires_grad=True)
    inputs = torch.randn(n, 3)
    return inputs, torch.tanh(inputs @ rule)


torch.manual_seed(0)
inputs, targets = sampled(60)
weight = torch.zeros(3, 1, requires_grad=True)
for epoch in range(2):
    for x, y in zip(inputs.split(20), targets.split(20)):
        loss = (torch.tanh(x @ weight) - y).pow(2).mean()
        loss.backward()
        with torch.no_grad():
            weight -= 0.1 * weight.grad
            weight.grad = None
