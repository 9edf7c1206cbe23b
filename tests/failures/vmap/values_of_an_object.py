# code: BS226
# variable: error
# cause: error = torch.zeros(size * (count - 1))
# fix: error = points.new_zeros(size * (count - 1))
import torch
from torch.func import vmap


class Variable:
    def __init__(self, tensor):
        self.tensor = tensor


def residual(variables, targets):
    [points] = variables
    points = points.tensor
    offsets = targets[0].tensor
    size = offsets.shape[1]
    count = points.shape[0] // size
    error = torch.zeros(size * (count - 1))
    for i in range(count - 1):
        error[i * size : (i + 1) * size] = points[(i + 1) * size : (i + 2) * size] - points[:size] - offsets[i]
    return error


def errors(points, offsets):
    return vmap(lambda p, o: residual([Variable(p)], [Variable(o)]))(points, offsets)


torch.manual_seed(0)
points, offsets = torch.rand(4, 6), torch.rand(4, 2, 2)
for _ in range(2):
    print(errors(points, offsets).square().sum().item())
