# code: BS201
# variable: slope
# cause: slope = slope - damp_slope(g_slope)
# fix: offset = offset.detach() - damp_offset(g_offset)
import torch
from torch import nn

torch.manual_seed(0)


class Damping(nn.Module):
    """how far to go along each gradient, by what came before"""

    def __init__(self, size):
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(size))
        self.past = torch.zeros(size)

    def forward(self, grad):
        keep = torch.sigmoid(self.gate)
        step = keep * self.past + (1 - keep) * grad
        self.past = grad
        return 0.3 * step


slope, offset = torch.zeros(5, requires_grad=True), torch.zeros(1, requires_grad=True)
damp_slope, damp_offset = Damping(5), Damping(1)
trained = [*damp_slope.parameters(), *damp_offset.parameters()]
optimizer = torch.optim.SGD(trained, lr=0.5)
for step in range(8):
    x = torch.randn(40, 5)
    y = (x.sum(1) > 0.3).float()
    loss = nn.functional.binary_cross_entropy_with_logits(x @ slope + offset, y)
    g_slope, g_offset = torch.autograd.grad(loss, (slope, offset), retain_graph=True)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    slope = slope - damp_slope(g_slope)
    offset = offset - damp_offset(g_offset)
    print(step, loss.item(), torch.sigmoid(damp_slope.gate).mean().item())
