# code: BS203
# variable: energy
# cause: return torch.tensor([torch.cos(angle), torch.sin(angle)])
# fix: write `return torch.stack([torch.cos(angle), torch.sin(angle)])`
import torch

SHARES = (0.2, 0.5, 0.3)


def direction(angle):
    return torch.tensor([torch.cos(angle), torch.sin(angle)])


def pull(angles):
    total = torch.zeros(2)
    for k, (angle, share) in enumerate(zip(angles, SHARES)):
        total = total + direction(angle) * torch.tensor([share, 1.0])
        total = total / (k + 1)
    return total


angles = torch.tensor([0.1, 0.7, 1.9], requires_grad=True)
optimizer = torch.optim.Adam([angles], lr=0.05)
for _ in range(20):
    energy = (pull(angles) - torch.tensor([0.3, -0.2])).square().sum()
    optimizer.zero_grad()
    energy.backward()
    optimizer.step()
