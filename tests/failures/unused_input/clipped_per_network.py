# code: BS204
# variable: matrix
# cause: d_matrix, d_bias = torch.autograd.grad(cost, (matrix, bias), retain_graph=True)
# fix: for k, (cost, matrix, bias) in enumerate(zip(
import torch
from torch import nn
from torch.func import functional_call, stack_module_state, vmap

torch.manual_seed(0)
nets = [nn.Linear(3, 2) for _ in range(4)]
stacked, _ = stack_module_state(nets)
x, y = torch.randn(4, 10, 3), torch.randn(4, 10, 2)


def cost_of(weights, x, y):
    return nn.functional.mse_loss(functional_call(nets[0], weights, (x,)), y)


for step in range(6):
    costs = vmap(cost_of)(stacked, x, y)
    ways = {"weight": [], "bias": []}
    for cost, matrix, bias in zip(costs, stacked["weight"], stacked["bias"]):
        d_matrix, d_bias = torch.autograd.grad(cost, (matrix, bias), retain_graph=True)
        ways["weight"].append(d_matrix.clamp(-1, 1))
        ways["bias"].append(d_bias.clamp(-1, 1))
    with torch.no_grad():
        for name, way in ways.items():
            stacked[name] -= 0.1 * torch.stack(way)
print(costs.sum().item())
