# code: BS200
# variable: out
# cause: @torch.no_grad()
# fix: from explain(): backward runs there
import torch
from torch import nn


class Attribution:
    """Weighs the activations of a layer by their gradients."""

    def __init__(self, layer):
        self.activation = self.gradient = None
        layer.register_forward_hook(self.keep)

    def keep(self, layer, args, out):
        self.activation = out
        out.retain_grad()

    def weigh(self, score):
        score.backward()
        return (self.activation.grad * self.activation).sum(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 12), nn.ReLU())
        self.top = nn.Linear(12, 2)

    def forward(self, x):
        return self.top(self.body(x))


@torch.no_grad()
def explain(net, method, batches):
    found = []
    for x in batches:
        score = net(x)[:, 1].sum()
        found.append(method.weigh(score))
    return torch.cat(found)


torch.manual_seed(0)
net = Net().eval()
print(explain(net, Attribution(net.body), [torch.randn(3, 6) for _ in range(2)]))
