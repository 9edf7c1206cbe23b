# code: BS207
# variable: Clamp
# cause: return g
# fix: Return None for each argument that
import torch


class Clamp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, low):
        return x.clamp(min=low)

    @staticmethod
    def backward(ctx, g):
        return g


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(3, 3), torch.nn.Linear(3, 1)

    def forward(self, x):
        return self.b(Clamp.apply(self.a(x), 0.0)).mean()


def train(net):
    loss = net(torch.randn(5, 3))
    loss.backward()


train(Net())
