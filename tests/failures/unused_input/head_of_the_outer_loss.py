# code: BS204
# variable: self.model.amplitude.weight
# cause: grads = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
# fix: create_graph=True, allow_unused=True)`
import torch
from torch import nn
from torch.func import functional_call


class Waves(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.wave, self.amplitude = nn.Linear(1, 16), nn.Linear(16, 1), nn.Linear(16, 1)

    def forward(self, x):
        h = torch.tanh(self.body(x))
        return self.wave(h), self.amplitude(h.mean(0))


class MAML:
    def __init__(self, model, inner_lr=0.1):
        self.model, self.inner_lr = model, inner_lr

    def adapt(self, x, y):
        weights = dict(self.model.named_parameters())
        prediction, _ = functional_call(self.model, weights, (x,))
        loss = (prediction - y).square().mean()
        grads = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
        return {name: w - self.inner_lr * g for (name, w), g in zip(weights.items(), grads)}


learner = MAML(Waves())
x = torch.rand(8, 1)
learner.adapt(x, torch.sin(6 * x))
