# code: BS204
# variable: delta
# cause: hidden = self.net(self.images)
# fix: hidden = self.net(pictures)
import torch
import torch.nn as nn
import torch.nn.functional as F


class Robust(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
        self.images = None

    def score(self, pictures, labels):
        logits = self.classify(pictures)
        return F.cross_entropy(logits, labels)

    def classify(self, pictures):
        hidden = self.net(self.images)
        return hidden / 2.0

    def attack(self, images, labels):
        self.images = images
        delta = torch.zeros_like(images, requires_grad=True)
        for _ in range(3):
            moved = (images + delta).clamp(-3, 3)
            loss = self.score(moved, labels)
            (grad,) = torch.autograd.grad(loss, delta)
            delta = (delta + 0.1 * grad.sign()).detach().requires_grad_()
        return images + delta


torch.manual_seed(0)
model = Robust()
print(model.attack(torch.randn(4, 6), torch.tensor([0, 1, 2, 0])).sum().item())
