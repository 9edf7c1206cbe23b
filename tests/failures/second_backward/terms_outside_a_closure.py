# code: BS201
# variable: smooth
# cause: smooth = sum(weight.diff().square().sum() for weight in net.parameters())
# fix: lines 19, 20 and 21
import torch
from torch import nn

torch.manual_seed(9)


class Solver:
    def __init__(self, net, rate=0.5):
        self.net, self.rate = net, rate
        self.optimizer = torch.optim.LBFGS(net.parameters(), lr=rate, max_iter=4)

    def solve(self, x, wanted):
        """One call of the optimizer, which asks for the loss several times."""
        net = self.net
        drawn = net(x)
        misfit = (drawn - wanted).square().mean()
        smooth = sum(weight.diff().square().sum() for weight in net.parameters())

        def loss_of():
            self.optimizer.zero_grad()
            total = misfit + 1e-3 * smooth
            total.backward()
            return total

        return self.optimizer.step(loss_of)


solver = Solver(nn.Sequential(nn.Linear(1, 6), nn.Softplus(), nn.Linear(6, 1)))
points = torch.linspace(-1, 1, 12)[:, None]
solver.solve(points, points.abs())
