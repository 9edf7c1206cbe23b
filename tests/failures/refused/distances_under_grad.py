# code: BS200
# variable: Nearest.apply(spots, x)
# cause: def forward(ctx, centers, x):
# fix: Compute gap and far from the inputs again there
import torch


class Nearest(torch.autograd.Function):
    @staticmethod
    def forward(ctx, centers, x):
        gap = x[:, None] - centers
        far = gap.norm(dim=-1).clamp(min=1e-6)
        ctx.save_for_backward(gap, far)
        ctx.count = len(centers)
        return far.sum(dim=1)

    @staticmethod
    def backward(ctx, slope):
        gap, far = ctx.saved_tensors
        way = slope[:, None, None] * gap / far[..., None]
        return -way.sum(dim=0) / ctx.count * ctx.count, way.sum(dim=1)


torch.manual_seed(0)
spots, x = torch.randn(3, 2), torch.randn(8, 2)


def total(spots):
    return Nearest.apply(spots, x).sum()


for step in range(3):
    spots = spots - 0.05 * torch.func.grad(total)(spots)
print(spots)
