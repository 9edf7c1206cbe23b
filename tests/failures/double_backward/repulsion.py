# code: BS215
# variable: pdist
# cause: return torch.nn.functional.pdist(points).reciprocal().sum()
# fix: square().sum(-1) + 1e-12).sqrt()
# mended: PyTorch has second derivatives of distances from 2.14 on
import torch


def energy(points):
    return torch.nn.functional.pdist(points).reciprocal().sum()


def hessian_vector(f, x, v):
    (g,) = torch.autograd.grad(f(x), x, create_graph=True)
    (hv,) = torch.autograd.grad(g, x, v)
    return hv


points = torch.randn(5, 3, requires_grad=True)
hessian_vector(energy, points, torch.randn(5, 3))
