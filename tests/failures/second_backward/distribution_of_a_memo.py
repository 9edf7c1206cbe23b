# code: BS201
# variable: posterior()
# cause: self.__dict__[name] = method(self)
# fix: remove line 26, `@memoized`
import torch
from torch import nn
from torch.distributions import MultivariateNormal, kl_divergence


def memoized(method):
    name = f"_memo_{method.__name__}"

    def wrapper(self):
        if name not in self.__dict__:
            self.__dict__[name] = method(self)
        return self.__dict__[name]

    return wrapper


class Inducing(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean, self.root = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.eye(3))

    @memoized
    def posterior(self):
        root = torch.tril(self.root)
        return MultivariateNormal(self.mean, root @ root.T + 1e-3 * torch.eye(3))

    def forward(self, x):
        prior = MultivariateNormal(torch.zeros(3), torch.eye(3))
        return x @ self.posterior().rsample(), kl_divergence(self.posterior(), prior)


torch.manual_seed(0)
model = Inducing()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    out, penalty = model(torch.randn(6, 3))
    loss = (out - 1).square().mean() + 0.1 * penalty
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
