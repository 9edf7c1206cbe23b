# code: BS200
# variable: low.reshape(ctx.shape)
# cause: return low.reshape(ctx.shape), None
# fix: on line 26, write `return low.new_zeros(ctx.shape).view(-1).index_add_(0, where, low).view(ctx.shape), None`
# unsure: that forward returns what it picks is read from its text
import torch
from torch import nn


class Minima(torch.autograd.Function):
    @staticmethod
    def forward(ctx, picture, floor):
        values = picture.reshape(-1)
        below = torch.cat([values[:1], values[:-1]])
        where = torch.nonzero(values < below).squeeze(1)
        ctx.save_for_backward(where)
        ctx.shape = picture.shape
        return values[where]

    @staticmethod
    def backward(ctx, grad_minima):
        (where,) = ctx.saved_tensors
        low = torch.zeros(len(where))
        low += grad_minima
        # as it came in
        return low.reshape(ctx.shape), None


net = nn.Conv2d(1, 1, 3, padding=1)
minima = Minima.apply(net(torch.rand(1, 1, 6, 5))[0, 0], 0.1)
minima.sum().backward()
