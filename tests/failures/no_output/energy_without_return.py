# code: BS233
# variable: energy
# cause: def energy(self, positions):
# fix: return total
import torch


class Springs:
    def __init__(self, stiffness, length):
        self.stiffness = stiffness
        self.length = length

    def energy(self, positions):
        stretch = (positions[1:] - positions[:-1]).norm(dim=1) - self.length
        total = 0.5 * (self.stiffness * stretch**2).sum()

    def modes(self, positions):
        hessian = torch.func.hessian(self.energy)(positions)
        n = positions.numel()
        return torch.linalg.eigvalsh(hessian.reshape(n, n))


print(Springs(torch.ones(3), 1.0).modes(torch.randn(4, 2)))
