# code: BS203
# variable: u_x
# cause: u_x = d(u, x)
# fix: if not f.requires_grad: return torch.zeros_like(v)
import torch


def d(f, v):
    return torch.autograd.grad(f, v, grad_outputs=torch.ones_like(f), create_graph=True)[0]


def start(x, t):
    return 3.0 * x + 0.5 * t


def residual(temperature, points=8, diffusion=0.1):
    x = torch.linspace(0, 1, points).requires_grad_()
    t = torch.full_like(x, 0.1).requires_grad_()
    u = temperature(x, t)
    u_x = d(u, x)
    u_xx = d(u_x, x)
    u_t = d(u, t)
    return (u_t - diffusion * u_xx).abs().mean().item()


print(residual(start))
