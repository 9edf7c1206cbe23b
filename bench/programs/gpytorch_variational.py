"""A sparse variational Gaussian process, with natural gradients for its variational distribution."""

import gpytorch
import torch
from _digest import digest

torch.manual_seed(0)
x = torch.rand(300, 2)
y = torch.sin(3 * x[:, 0]) + x[:, 1] ** 2


class GPModel(gpytorch.models.ApproximateGP):
    def __init__(self, inducing):
        distribution = gpytorch.variational.NaturalVariationalDistribution(inducing.size(0))
        super().__init__(gpytorch.variational.VariationalStrategy(self, inducing, distribution))
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(ard_num_dims=2))

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


model, likelihood = GPModel(x[:20].clone()), gpytorch.likelihoods.GaussianLikelihood()
model.train()
likelihood.train()
natural = gpytorch.optim.NGD(model.variational_parameters(), num_data=300, lr=0.1)
hyper = torch.optim.Adam([{"params": model.hyperparameters()}, {"params": likelihood.parameters()}], lr=0.01)
mll = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=300)
for _step in range(60):
    chosen = torch.randint(0, 300, (64,))
    natural.zero_grad()
    hyper.zero_grad()
    loss = -mll(model(x[chosen]), y[chosen])
    loss.backward()
    natural.step()
    hyper.step()
print(loss.item())
print(digest(model, likelihood))
