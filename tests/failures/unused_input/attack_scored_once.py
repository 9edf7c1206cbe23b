# code: BS204
# variable: adversarial
# cause: logits = net(adversarial)
# fix: Move line 16
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 3))


def attack(x, y, eps=0.3, rate=0.1, rounds=5):
    """projected gradient ascent on the loss"""
    adversarial = x.clone().requires_grad_()
    logits = net(adversarial)
    for _ in range(rounds):
        loss = F.cross_entropy(logits, y)
        (g,) = torch.autograd.grad(loss, adversarial, retain_graph=True)
        adversarial = x + (adversarial + rate * g.sign() - x).clamp(-eps, eps)
    return adversarial.detach()


print(attack(torch.randn(6, 10), torch.randint(0, 3, (6,))).shape)
