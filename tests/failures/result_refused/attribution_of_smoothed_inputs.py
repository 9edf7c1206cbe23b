# code: BS219
# variable: noisy
# cause: batch.requires_grad = True
# fix: batch = batch.detach().requires_grad_()
import torch
from torch import nn


class Saliency:
    def __init__(self, net):
        self.net = net

    def of(self, batch, labels):
        batch.requires_grad = True
        scores = self.net(batch).gather(1, labels[:, None])
        scores.sum().backward()
        return batch.grad.abs()


def smoothed(saliency, batch, labels, rounds=3):
    maps = []
    for _ in range(rounds):
        noisy = batch + 0.1 * torch.randn_like(batch)
        maps.append(saliency.of(noisy, labels))
    return torch.stack(maps).mean(0)


torch.manual_seed(5)
net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
saliency = Saliency(net)
for step in range(3):
    x, labels = torch.randn(10, 6), torch.randint(3, (10,))
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(x), labels).backward()
    optimizer.step()
    plain = saliency.of(x, labels)
    print((plain - smoothed(saliency, x, labels)).abs().mean().item())
