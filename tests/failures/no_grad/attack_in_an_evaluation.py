# code: BS203
# variable: F.cross_entropy(net(adv), labels)
# cause: with torch.inference_mode(False), torch.no_grad():
# fix: torch.enable_grad()
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 3))
sgd = torch.optim.SGD(net.parameters(), lr=0.1)


def perturbed(images, labels, radius=0.1):
    start = images.detach()
    adv = (start + radius * torch.randn_like(start)).detach().requires_grad_(True)
    slope = torch.autograd.grad(F.cross_entropy(net(adv), labels), adv)[0]
    return (start + radius * slope.sign()).detach()


def robust_accuracy(batches):
    hits = total = 0
    with torch.inference_mode(False), torch.no_grad():
        for images, labels in batches:
            hits += (net(perturbed(images, labels)).argmax(1) == labels).sum().item()
            total += len(labels)
    return hits / total


batches = [(torch.randn(16, 6), torch.randint(0, 3, (16,))) for _ in range(4)]
for images, labels in batches:
    sgd.zero_grad()
    F.cross_entropy(net(perturbed(images, labels)), labels).backward()
    sgd.step()
print(robust_accuracy(batches))
