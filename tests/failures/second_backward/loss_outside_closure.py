# code: BS201
# variable: loss
# cause: loss = self.loss()
# fix: into closure()
"""Fitting a physics-like curve with L-BFGS through a small solver class."""

import torch
import torch.nn as nn


class Surrogate(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)
        )

    def forward(self, t):
        return self.net(t)


class Problem:
    """u'' + u = 0 with u(0) = 1, u'(0) = 0, on [0, 3]."""

    def __init__(self, n=40):
        self.t = torch.linspace(0, 3, n).unsqueeze(1).requires_grad_(True)
        self.zero = torch.zeros(1, 1, requires_grad=True)

    def residual(self, model):
        u = model(self.t)
        (du,) = torch.autograd.grad(u.sum(), self.t, create_graph=True)
        (ddu,) = torch.autograd.grad(du.sum(), self.t, create_graph=True)
        return ddu + u

    def boundary(self, model):
        u0 = model(self.zero)
        (du0,) = torch.autograd.grad(u0.sum(), self.zero, create_graph=True)
        return u0 - 1.0, du0


class Solver:
    def __init__(self, model, problem, lr=0.5):
        self.model, self.problem = model, problem
        self.opt = torch.optim.LBFGS(model.parameters(), lr=lr, max_iter=8, history_size=10)

    def loss(self):
        res = self.problem.residual(self.model)
        u0, du0 = self.problem.boundary(self.model)
        return res.pow(2).mean() + u0.pow(2).sum() + du0.pow(2).sum()

    def round(self):
        loss = self.loss()

        def closure():
            self.opt.zero_grad()
            loss.backward()
            return loss

        self.opt.step(closure)
        return float(self.loss())

    def solve(self, rounds):
        for r in range(rounds):
            value = self.round()
            if r % 3 == 0:
                print(f"round {r} loss {value:.5f}")


def main():
    torch.manual_seed(0)
    solver = Solver(Surrogate(16), Problem())
    solver.solve(12)
    with torch.no_grad():
        t = torch.tensor([[1.5]])
        print(f"u(1.5) = {solver.model(t).item():.4f}  exact {torch.cos(t).item():.4f}")


if __name__ == "__main__":
    main()
