# code: BS226
# variable: distance < 1
# cause: if distance < 1:
# fix: and on line 14 write `return torch.where(distance < 1, distance * 0, 1 / far)`
import torch


def repulsion(one, other):
    distance = (one - other).norm()
    if distance < 1:
        return distance * 0
    far = distance.square()
    far = far + 0.1
    return 1 / far


points = torch.randn(5, 3, requires_grad=True)
energy = torch.vmap(repulsion, in_dims=(0, 0))(points, points.roll(1, 0)).sum()
energy.backward()
