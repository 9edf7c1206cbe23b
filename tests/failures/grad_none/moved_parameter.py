# code: BS213
# variable: theta
# cause: theta = torch.zeros(4, requires_grad=True).to(dtype)
# fix: requires_grad_()
import torch

dtype = torch.float64


def rosenbrock(t):
    return (100 * (t[1:] - t[:-1] ** 2) ** 2 + (1 - t[:-1]) ** 2).sum()


theta = torch.zeros(4, requires_grad=True).to(dtype)
for _ in range(3):
    loss = rosenbrock(theta)
    loss.backward()
    theta = theta - 1e-3 * theta.grad
