# code: BS201
# variable: process.covariance
# cause: self.covariance = kernel(points, points)
# fix: self.covariance = self.kernel(self.points, self.points)
import torch


class Kernel:
    def __init__(self):
        self.log_scale = torch.zeros((), requires_grad=True)

    def __call__(self, a, b):
        return torch.exp(-(a[:, None] - b[None]).square() * self.log_scale.exp())


class Process:
    def __init__(self, points, kernel):
        self.points, self.kernel = points, kernel
        self.covariance = kernel(points, points)

    def likelihood(self, values):
        inverse = torch.linalg.inv(self.covariance + torch.eye(len(values)))
        return values @ inverse @ values


process = Process(torch.linspace(0, 1, 6), Kernel())
optimizer = torch.optim.Adam([process.kernel.log_scale], lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    loss = process.likelihood(torch.randn(6))
    loss.backward()
    optimizer.step()
