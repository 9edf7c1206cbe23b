# code: BS213
# variable: slope is None
# cause: return (noise < self.rate * x).float()
# fix: On line 17, write `return torch.sigmoid(
# varied: _, slope = graded(loss_of, image)
# or: _, slope = graded(lambda x: nn.functional.cross_entropy(net(x), label), image)
# unsure: the variables of the function that returned are gone
import torch
from torch import nn


class Spikes(nn.Module):
    rate = 0.5

    def forward(self, x):
        noise = torch.rand(10, *x.shape)
        return (noise < self.rate * x).float()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode, self.read = Spikes(), nn.Linear(6, 2)

    def forward(self, x):
        return self.read(self.encode(x)).mean(0)


def graded(loss_of, image):
    image = image.clone().requires_grad_()
    loss = loss_of(image)
    loss.backward()
    return loss.item(), image.grad


def attack(net, image, label, steps=3):
    def loss_of(x):
        return nn.functional.cross_entropy(net(x), label)

    for _ in range(steps):
        _, slope = graded(loss_of, image)
        image = image + 0.1 * slope.sign()
    return image


attack(Net(), torch.rand(4, 6), torch.tensor([0, 1, 1, 0]))
