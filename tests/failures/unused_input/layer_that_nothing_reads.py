# code: BS204
# variable: net.refine.weight
# cause: refined = self.refine(hidden)
# fix: Use refined below line 18
import torch
from torch import nn


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 8)
        self.refine = nn.Linear(8, 8)
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        hidden = torch.relu(self.body(x))
        refined = self.refine(hidden)
        return self.head(hidden)


net, rate = Regressor(), 0.1
x, y = torch.randn(5, 3), torch.randn(5, 1)
loss = nn.functional.mse_loss(net(x), y)
grads = torch.autograd.grad(loss, net.parameters(), create_graph=True)
fast = [p - rate * g for p, g in zip(net.parameters(), grads)]
