# code: BS217
# variable: energy
# cause: torch.autograd.backward(energy, create_graph=config["second_order"])
# fix: torch.autograd.grad
import torch

config = {"second_order": True, "probes": 2}


def curvature(f, x):
    energy = f(x)
    torch.autograd.backward(energy, create_graph=config["second_order"])
    total = 0.0
    for _ in range(config["probes"]):
        v = torch.randn_like(x).sign()
        (hv,) = torch.autograd.grad(x.grad, x, v, retain_graph=True)
        total += (v * hv).sum().item()
    return total / config["probes"]


curvature(lambda t: (t**4).sum(), torch.randn(5, requires_grad=True))
