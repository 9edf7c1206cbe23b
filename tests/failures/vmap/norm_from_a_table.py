# code: BS226
# variable: model.body[1]
# cause: NORMS = dict(none=nn.Identity, batch=nn.BatchNorm1d)
# fix: nn.GroupNorm
import torch
from torch import nn
from torch.func import functional_call, grad, vmap

NORMS = dict(none=nn.Identity, batch=nn.BatchNorm1d)


class Sequence(nn.Module):
    def __init__(self, channels, norm="batch"):
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(1, channels, 3), NORMS[norm](channels), nn.Mish())
        self.out = nn.Linear(channels, 1)

    def forward(self, x):
        return self.out(self.body(x).amax(2))


torch.manual_seed(0)
model = Sequence(4)


def loss(weights, x, y):
    return (functional_call(model, weights, (x[None],)).squeeze() - y).square()


weights = {name: weight.detach() for name, weight in model.named_parameters()}
each = vmap(grad(loss), in_dims=(None, 0, 0))
x = torch.randn(6, 1, 12)
print({name: gradient.norm() for name, gradient in each(weights, x, x.sum((1, 2))).items()})
