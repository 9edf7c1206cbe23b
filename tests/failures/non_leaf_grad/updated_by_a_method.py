# code: BS213
# variable: self.W1
# cause: self.W1 = self.W1 - rate * self.W1.grad
# fix: self.W1 = (self.W1 - rate * self.W1.grad).detach().requires_grad_()
import torch
from torch import nn

torch.manual_seed(0)


class Model:
    def __init__(self):
        self.W1 = torch.randn(3, 5, requires_grad=True)
        self.W2 = torch.randn(5, 1, requires_grad=True)

    def __call__(self, x):
        return torch.tanh(x @ self.W1) @ self.W2

    def sgd(self, rate):
        self.W1 = self.W1 - rate * self.W1.grad
        self.W2 = self.W2 - rate * self.W2.grad


m = Model()
for it in range(3):
    loss = m(torch.randn(8, 3)).square().mean()
    loss.backward()
    m.sgd(0.01)
