# code: BS203
# variable: lift
# cause: @torch.no_grad()
# fix: with torch.enable_grad():
import torch
from torch import nn


class Backtracking(torch.optim.Optimizer):
    def __init__(self, params, lr=0.2, most=5):
        super().__init__(params, {"lr": lr})
        self.most = most

    def walk(self, way, length):
        for group in self.param_groups:
            for weight, each in zip(group["params"], way):
                weight.sub_(length * each)

    @torch.no_grad()
    def step(self, closure):
        with torch.enable_grad():
            best = closure().item()
        way = [p.grad.clone() for p in self.param_groups[0]["params"]]
        length = self.param_groups[0]["lr"]
        for _ in range(self.most):
            self.walk(way, length)
            reached = closure()
            if reached < best:
                return reached
            self.walk(way, -length)
            length /= 2
        return best


torch.manual_seed(0)
network = nn.Sequential(nn.Linear(1, 12), nn.Tanh(), nn.Linear(12, 1, bias=False))
at = torch.linspace(-1, 1, 20).unsqueeze(1).requires_grad_()


def slope_error():
    lift = network(at)
    (slope,) = torch.autograd.grad(lift.sum(), at, create_graph=True)
    loss = (slope - at.cos()).square().mean()
    if loss.requires_grad:
        search.zero_grad()
        loss.backward()
    return loss


search = Backtracking(network.parameters())
for _ in range(4):
    search.step(slope_error)
