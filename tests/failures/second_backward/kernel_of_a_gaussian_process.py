# code: BS201
# variable: self.K
# cause: self.K = self.kernel(x, x)
# fix: above line
import torch
import torch.nn as nn


class GPKernel(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_len = nn.Parameter(torch.zeros(()))
        self.log_var = nn.Parameter(torch.zeros(()))

    def forward(self, a, b):
        d = (a[:, None] - b[None]).pow(2) / self.log_len.exp().pow(2)
        return self.log_var.exp() * torch.exp(-0.5 * d)


class GPRegression:
    def __init__(self, x, y):
        self.x, self.y = x, y
        self.kernel = GPKernel()
        self.log_noise = nn.Parameter(torch.tensor(-2.0))
        self.K = self.kernel(x, x)

    def parameters(self):
        return [*self.kernel.parameters(), self.log_noise]

    def nll(self):
        n = len(self.x)
        L = torch.linalg.cholesky(self.K + self.log_noise.exp() * torch.eye(n))
        alpha = torch.cholesky_solve(self.y[:, None], L)
        return 0.5 * (self.y @ alpha).squeeze() + L.diagonal().log().sum()

    def fit(self, steps=10):
        opt = torch.optim.LBFGS(self.parameters(), lr=0.1, max_iter=10)

        def closure():
            opt.zero_grad()
            loss = self.nll()
            loss.backward()
            return loss

        for step in range(steps):
            loss = opt.step(closure)
            print(step, loss.item(), self.kernel.log_len.exp().item())


torch.manual_seed(0)
x = torch.linspace(-3, 3, 40)
y = torch.sin(2 * x) + 0.1 * torch.randn(40)
gp = GPRegression(x, y)
gp.fit()
