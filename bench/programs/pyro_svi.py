"""SVI: Bayesian regression with an AutoGuide."""

import pyro
import torch
from _digest import digest
from pyro.distributions import HalfCauchy, Normal
from pyro.infer import SVI, Predictive, Trace_ELBO
from pyro.infer.autoguide import AutoDiagonalNormal

pyro.set_rng_seed(0)
x = torch.randn(100, 3)
y = x @ torch.tensor([1.0, -2.0, 0.5]) + 0.1 * torch.randn(100)


def model(x, y=None):
    weights = pyro.sample("weights", Normal(torch.zeros(3), 1.0).to_event(1))
    sigma = pyro.sample("sigma", HalfCauchy(1.0))
    with pyro.plate("data", len(x)):
        return pyro.sample("obs", Normal(x @ weights, sigma), obs=y)


guide = AutoDiagonalNormal(model)
svi = SVI(model, guide, pyro.optim.Adam({"lr": 0.02}), Trace_ELBO())
for _step in range(150):
    loss = svi.step(x, y)
print(loss, Predictive(model, guide=guide, num_samples=10)(x)["obs"].shape)
print(digest(dict(pyro.get_param_store().items())))
