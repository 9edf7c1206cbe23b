# code: BS208
# variable: bands
# cause: grad_bands = torch.zeros(n, m)
# fix: grad_bands = torch.zeros_like(bands)
import torch


class Sky(torch.autograd.Function):
    @staticmethod
    def forward(ctx, spread, bands):
        ctx.save_for_backward(spread, bands)
        return spread @ bands[:, 0]

    @staticmethod
    def backward(ctx, grad):
        spread, bands = ctx.saved_tensors
        n = len(bands)
        m = 0
        if n:
            m = bands.shape[1]
        grad_bands = torch.zeros(n, m)
        if n:
            grad_bands[:, 0] = spread.T @ grad
        return None, grad_bands


stars = torch.rand(6, 4)
for step in range(3):
    bands = stars.clone().requires_grad_()
    loss = (Sky.apply(torch.rand(10, len(bands)), bands) - 0.3).square().mean()
    loss.backward()
    stars = stars[bands.grad[:, 0] > 10]
