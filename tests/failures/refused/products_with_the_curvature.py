# code: BS200
# variable: self.norm
# cause: return mse(functional_call(self.net, weights, (self.x,)), self.y)
# fix: functional_call(self.net, (weights, {k: b.clone() for k, b in self.net.named_buffers()}), (self.x,))
# or: return mse(functional_call(self.net, (weights, self.statistics), (self.x,)), self.y)
import torch
from torch import nn
from torch.func import functional_call, grad
from torch.nn.functional import mse_loss as mse


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.norm = nn.Linear(3, width), nn.BatchNorm1d(width)
        self.last = nn.Linear(width, 1)

    def forward(self, x):
        return self.last(torch.tanh(self.norm(self.first(x))))


class Curvature:
    def __init__(self, net, x, y):
        self.net, self.x, self.y = net, x, y
        self.statistics = dict(net.named_buffers())
        self.weights = {name: each.detach() for name, each in net.named_parameters()}

    def loss(self, weights):
        return mse(functional_call(self.net, weights, (self.x,)), self.y)

    def times(self, direction):
        def along(weights):
            slope = grad(self.loss)(weights)
            return sum((direction[name] * slope[name]).sum() for name in slope)

        return grad(along)(self.weights)


torch.manual_seed(0)
net = Net(5)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
for _ in range(3):
    x = torch.randn(16, 3)
    y = x.sum(dim=1, keepdim=True)
    loss = mse(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    curvature = Curvature(net, x, y)
    direction = {name: torch.randn_like(each) for name, each in curvature.weights.items()}
    product = curvature.times(direction)
    print(sum((direction[name] * product[name]).sum() for name in product).item())
