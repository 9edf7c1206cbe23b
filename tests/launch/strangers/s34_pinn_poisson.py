"""Physics-informed network for -u'' = f on [0, 1] with zero boundary values."""
import argparse
import math

import torch
from torch import nn


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=350)
    p.add_argument("--lr", type=float, default=5e-3)
    p.add_argument("--n-interior", type=int, default=64)
    p.add_argument("--bc-weight", type=float, default=20.0)
    p.add_argument("--seed", type=int, default=0)
    return p.parse_args()


class Solution(nn.Module):
    def __init__(self, width=32, depth=3):
        super().__init__()
        layers, d = [], 1
        for _ in range(depth):
            layers += [nn.Linear(d, width), nn.Tanh()]
            d = width
        self.body = nn.Sequential(*layers)
        self.out = nn.Linear(d, 1)

    def forward(self, x):
        return self.out(self.body(x))


def derivative(y, x, order=1):
    """order-th derivative of y with respect to x."""
    for k in range(order):
        last = k == order - 1
        (y,) = torch.autograd.grad(y, x, torch.ones_like(y), create_graph=not last)
    return y


def source(x):
    return math.pi ** 2 * torch.sin(math.pi * x) + 0.5 * (3 * math.pi) ** 2 * torch.sin(3 * math.pi * x)


def exact(x):
    return torch.sin(math.pi * x) + 0.5 * torch.sin(3 * math.pi * x)


class Problem:
    def __init__(self, net, n_interior, bc_weight):
        self.net = net
        self.n = n_interior
        self.bc_weight = bc_weight
        self.ends = torch.tensor([[0.0], [1.0]])

    def residual_loss(self):
        x = torch.rand(self.n, 1).requires_grad_(True)
        u = self.net(x)
        u_xx = derivative(u, x, order=2)
        return ((u_xx + source(x)) ** 2).mean() / 100.0

    def boundary_loss(self):
        return (self.net(self.ends) ** 2).mean()

    def loss(self):
        pde = self.residual_loss()
        bc = self.boundary_loss()
        return pde + self.bc_weight * bc, pde, bc


def relative_error(net):
    x = torch.linspace(0, 1, 200).unsqueeze(1)
    with torch.no_grad():
        u = net(x)
    ref = exact(x)
    return ((u - ref).norm() / ref.norm()).item()


def main():
    args = parse()
    torch.manual_seed(args.seed)
    net = Solution()
    problem = Problem(net, args.n_interior, args.bc_weight)
    optim = torch.optim.Adam(net.parameters(), lr=args.lr)
    for step in range(args.steps):
        optim.zero_grad()
        total, pde, bc = problem.loss()
        total.backward()
        optim.step()
        if step % 50 == 0 or step == args.steps - 1:
            print(f"step {step:4d} total {total.item():.4f} pde {pde.item():.4f} "
                  f"bc {bc.item():.2e} rel.err {relative_error(net):.3f}")


if __name__ == "__main__":
    main()
