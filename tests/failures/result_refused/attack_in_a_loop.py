# code: BS219
# variable: delta
# cause: delta.requires_grad = True
# fix: delta = delta.detach().requires_grad_()
import torch
from torch import nn
from torch.nn.functional import cross_entropy

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
image, label = torch.rand(2, 8), torch.tensor([0, 3])
delta = torch.zeros_like(image)
for _ in range(5):
    delta.requires_grad = True
    loss = cross_entropy(net(image + delta), label)
    (gradient,) = torch.autograd.grad(loss, delta)
    delta = (delta + 0.01 * gradient.sign()).clamp(-0.03, 0.03)
