# code: BS203
# variable: loss
# cause: values = net(times).detach().numpy()
# fix: torch.diff(values, axis=0)
import numpy as np
import torch


def sampled(net, times):
    values = net(times).detach().numpy()
    return np.tanh(values)


def roughness(values):
    steps = np.diff(values, axis=0)
    return np.abs(steps)


class Curve:
    def __init__(self, net):
        self.net = net

    def cost(self, times):
        rough = roughness(sampled(self.net, times))
        total = np.mean(rough)
        return torch.tensor(total)


torch.manual_seed(0)
curve = Curve(torch.nn.Linear(2, 1))
optimizer = torch.optim.SGD(curve.net.parameters(), lr=0.1)
for step in range(3):
    loss = curve.cost(torch.tensor(np.random.rand(8, 2), dtype=torch.float32))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
