# code: BS205
# variable: model.weight
# cause: p.add_(p.grad, alpha=-0.1)
# fix: with torch.no_grad(): p.add_(p.grad, alpha=-0.1)
import torch


class Descent:
    def __init__(self, params):
        self.params = list(params)

    def step(self):
        for p in self.params:
            p.add_(p.grad, alpha=-0.1)


model = torch.nn.Linear(2, 1)
model(torch.randn(1, 2)).sum().backward()
Descent(model.parameters()).step()
