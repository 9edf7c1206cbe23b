# code: BS213
# variable: adversarial
# cause: adversarial = image + 0.01 * torch.randn_like(image)
# fix: retain_grad
import warnings

import torch
from torch import nn

warnings.simplefilter("ignore")
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))


def fgsm(image, label, epsilon=0.1):
    image = image.clone().requires_grad_()
    adversarial = image + 0.01 * torch.randn_like(image)
    loss = nn.functional.cross_entropy(net(adversarial), label)
    loss.backward()
    return adversarial + epsilon * adversarial.grad.sign()


fgsm(torch.rand(2, 8), torch.tensor([0, 2]))
