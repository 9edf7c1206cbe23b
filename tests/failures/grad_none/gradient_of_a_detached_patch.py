# code: BS213
# variable: grad is None
# cause: patched[:, :2] = patch.detach()
# fix: write `patched[:, :2] = patch`
# unsure: the variables of the function that returned are gone
import torch
from torch import nn


class Attack:
    def __init__(self, model):
        self.model = model

    def apply(self, image, patch):
        patched = image.clone()
        patched[:, :2] = patch.detach()
        return patched

    def step(self, image, patch):
        patch = patch.detach().requires_grad_()
        score = self.model(self.apply(image, patch)).sum()
        score.backward()
        grad = patch.grad
        return score, grad

    def run(self, image, patch):
        score, grad = self.step(image, patch)
        return patch - 0.1 * grad


Attack(nn.Linear(5, 1)).run(torch.rand(3, 5), torch.zeros(3, 2))
