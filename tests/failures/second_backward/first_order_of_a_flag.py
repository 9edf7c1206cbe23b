# code: BS201
# variable: fit
# cause: slope = torch.autograd.grad(fit, code, create_graph=self.second_order)[0]
# fix: write `slope = torch.autograd.grad(fit, code, create_graph=self.second_order, retain_graph=True)[0]`
import torch
from torch import nn


class Latent(nn.Module):
    """Refines a code by its own fit, and reports the fit of the last refinement, too."""

    def __init__(self, size=4, second_order=False):
        super().__init__()
        self.start = nn.Parameter(torch.zeros(size))
        self.decode = nn.Sequential(nn.Linear(size, 16), nn.Tanh(), nn.Linear(16, 6))
        self.second_order = second_order

    def refined(self, x):
        code = self.start.expand(len(x), -1)
        for _ in range(2):
            fit = (self.decode(code) - x).square().mean()
            slope = torch.autograd.grad(fit, code, create_graph=self.second_order)[0]
            code = code - 0.5 * slope
        return code, fit

    def forward(self, x):
        code, fit = self.refined(x)
        return (self.decode(code) - x).square().mean() + 0.1 * fit


torch.manual_seed(0)
latent = Latent()
adam = torch.optim.Adam(latent.parameters(), lr=1e-2)
for _ in range(3):
    total = latent(torch.randn(8, 6))
    adam.zero_grad()
    total.backward()
    adam.step()
