# code: BS213
# variable: self.picture
# cause: pixels = pixels.to(torch.float32)
# fix: pixels = pixels.to(torch.float32).detach().requires_grad_()
import torch
from torch import nn


class Attack:
    def __init__(self, net, picture):
        self.net = net
        self.picture = picture

    def direction(self, label):
        nn.functional.cross_entropy(self.net(self.picture), label).backward()
        return self.picture.grad.sign()


net = nn.Sequential(nn.Flatten(), nn.Linear(48, 5))
for label in range(5):
    pixels = torch.tensor([[0.1 * label] * 48], dtype=torch.float64, requires_grad=True)
    pixels = pixels.to(torch.float32)
    print(Attack(net, pixels).direction(torch.tensor([label])).sum())
