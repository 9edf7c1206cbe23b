# code: BS200
# variable: Limit.apply(score, 3.0)
# cause: def forward(ctx, score, limit):
# fix: Compute bent from the inputs again there
import torch
from torch import nn


class Limit(torch.autograd.Function):
    """a score that cannot leave [-limit, limit]"""

    @staticmethod
    def forward(ctx, score, limit):
        share = score / limit
        bent = torch.tanh(share)
        ctx.save_for_backward(bent)
        return limit * bent

    @staticmethod
    def backward(ctx, slope):
        (bent,) = ctx.saved_tensors
        return slope * (1 - bent.square()), None


torch.manual_seed(0)
net = nn.Linear(3, 1)
weights = {name: p.detach() for name, p in net.named_parameters()}
x, y = torch.randn(20, 3), torch.randn(20, 1)


def error(weights):
    score = torch.func.functional_call(net, weights, (x,))
    return (Limit.apply(score, 3.0) - y).square().mean()


for step in range(5):
    slopes, loss = torch.func.grad_and_value(error)(weights)
    weights = {name: w - 0.1 * slopes[name] for name, w in weights.items()}
    print(step, loss.item())
