"""Bayesian optimization: a Gaussian process is fitted and its expected improvement maximized, in turn."""

import torch
from _digest import digest
from botorch.acquisition import LogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.optim import optimize_acqf
from gpytorch.mlls import ExactMarginalLogLikelihood

torch.manual_seed(0)
bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)
x = torch.rand(8, 2, dtype=torch.double)


def objective(x):
    return -((x - 0.4) ** 2).sum(dim=-1, keepdim=True)


y = objective(x)
for _ in range(3):
    model = SingleTaskGP(x, y)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    candidate, _ = optimize_acqf(LogExpectedImprovement(model, y.max()), bounds, q=1, num_restarts=2, raw_samples=16)
    x, y = torch.cat([x, candidate]), torch.cat([y, objective(candidate)])
print(round(y.max().item(), 6))
print(digest(model, x))
