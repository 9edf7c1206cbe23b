"""Alternating optimisation of a dictionary and sparse codes (ISTA-like), each with its own optimizer."""
import torch
from torch import nn

torch.manual_seed(0)


def make_data(n=400, dim=24, atoms=16, active=2):
    dictionary = nn.functional.normalize(torch.randn(atoms, dim), dim=1)
    codes = torch.zeros(n, atoms)
    for row in codes:
        row[torch.randperm(atoms)[:active]] = 1 + torch.rand(active)
    return codes @ dictionary + 0.01 * torch.randn(n, dim)


class SparseCoder:
    def __init__(self, data, atoms=16, l1=0.02):
        self.data, self.l1 = data, l1
        self.atoms = nn.Parameter(nn.functional.normalize(torch.randn(atoms, data.size(1)), dim=1))
        self.codes = nn.Parameter(torch.zeros(len(data), atoms))
        self.opt_codes = torch.optim.Adam([self.codes], lr=5e-2)
        self.opt_atoms = torch.optim.Adam([self.atoms], lr=1e-2)

    def objective(self, codes, atoms):
        fit = (codes @ atoms - self.data).square().sum(1).mean()
        return fit, fit + self.l1 * codes.abs().sum(1).mean()

    def update_codes(self, steps):
        for _ in range(steps):
            self.opt_codes.zero_grad()
            _, loss = self.objective(self.codes, self.atoms.detach())
            loss.backward()
            self.opt_codes.step()
            with torch.no_grad():
                self.codes.clamp_(min=0)

    def update_atoms(self, steps):
        for _ in range(steps):
            self.opt_atoms.zero_grad()
            _, loss = self.objective(self.codes.detach(), self.atoms)
            loss.backward()
            self.opt_atoms.step()
            with torch.no_grad():
                self.atoms.copy_(nn.functional.normalize(self.atoms, dim=1))

    def fit(self, rounds):
        for r in range(1, rounds + 1):
            self.update_codes(20)
            self.update_atoms(5)
            if r % 10 == 0:
                with torch.no_grad():
                    fit, total = self.objective(self.codes, self.atoms)
                used = (self.codes > 1e-3).float().sum(1).mean().item()
                print(f"round {r} reconstruction {fit:.4f} objective {total:.4f} active atoms {used:.2f}")


SparseCoder(make_data()).fit(80)
