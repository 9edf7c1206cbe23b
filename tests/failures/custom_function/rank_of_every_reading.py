# code: BS200
# variable: d.reshape(ctx.size)
# cause: return d.reshape(ctx.size), None
# fix: d.new_zeros(ctx.size).view(-1).index_add_(0, order, d).view(ctx.size)
# unsure: that forward returns what it picks is read from its text
import torch
from torch import nn

torch.manual_seed(0)


class Strongest(torch.autograd.Function):
    """The strongest readings of all sensors, in order."""

    @staticmethod
    def forward(ctx, readings, many):
        ranked, order = torch.sort(readings.flatten(), descending=True)
        strongest, chosen = torch.topk(readings.contiguous().view(-1), many)
        ctx.size = readings.shape
        ctx.save_for_backward(chosen)
        return strongest

    @staticmethod
    def backward(ctx, d):
        order, = ctx.saved_tensors
        return d.reshape(ctx.size), None


net = nn.Sequential(nn.Linear(4, 12), nn.Tanh(), nn.Linear(12, 5))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(3):
    readings = net(torch.randn(6, 4))
    loss = (Strongest.apply(readings, 7) - 1.0).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
