# code: BS207
# variable: Pull
# cause: return (None,) * 2 + (way.sum(1), -way.sum(0))
# fix: return None, None, None, way.sum(1), -way.sum(0)
import torch


class Pull(torch.autograd.Function):
    @staticmethod
    def forward(ctx, power, soft, label, *points):
        a, b = points
        gap = a[:, None] - b[None]
        near = torch.exp(-gap.square().sum(-1) / soft)
        ctx.save_for_backward(gap, near)
        ctx.soft = soft
        return power * near.sum()

    @staticmethod
    def backward(ctx, g):
        gap, near = ctx.saved_tensors
        way = -2 / ctx.soft * g * near[..., None] * gap
        return (None,) * 2 + (way.sum(1), -way.sum(0))


torch.manual_seed(0)
a, b = torch.randn(5, 2, requires_grad=True), torch.randn(3, 2, requires_grad=True)
optimizer = torch.optim.SGD([a, b], lr=0.1)
for step in range(4):
    pull = -Pull.apply(1.0, 2.0, "pairs", a, b)
    optimizer.zero_grad()
    pull.backward()
    optimizer.step()
