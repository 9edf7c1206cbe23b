"""NUTS: Hamiltonian Monte Carlo over the gradients of a log density."""

import pyro
import torch
from _digest import digest
from pyro.distributions import Exponential, Normal
from pyro.infer import MCMC, NUTS

pyro.set_rng_seed(0)
data = torch.randn(40) * 0.5 + 2


def model(data):
    mean, spread = pyro.sample("mean", Normal(0.0, 10.0)), pyro.sample("spread", Exponential(1.0))
    with pyro.plate("data", len(data)):
        pyro.sample("obs", Normal(mean, spread), obs=data)


mcmc = MCMC(NUTS(model), num_samples=40, warmup_steps=40, disable_progbar=True)
mcmc.run(data)
print(mcmc.get_samples()["mean"].mean().item())
print(digest(mcmc.get_samples()))
