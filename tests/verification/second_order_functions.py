"""Functions with the right first derivative: some whose second is silently wrong, and some whose second is right."""

from __future__ import annotations

import numpy as np
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class Intermediate(Function):
    """pytorch#58509: what forward computed is kept on ctx."""

    @staticmethod
    def forward(ctx, x):
        t = x * 2
        ctx.t = t
        return t**2

    @staticmethod
    def backward(ctx, grad):
        return 2 * 2 * ctx.t * grad


class SavedIntermediate(Function):
    """Saving it properly does not help: it is neither an input nor an output."""

    @staticmethod
    def forward(ctx, x):
        y = x.sigmoid()
        ctx.save_for_backward(x, y)
        return 3 * y

    @staticmethod
    def backward(ctx, grad):
        _, y = ctx.saved_tensors
        return 3 * grad * y * (1 - y)


class Number(Function):
    @staticmethod
    def forward(ctx, x):
        norm = x.norm()
        ctx.norm = norm.item()
        ctx.save_for_backward(x)
        return norm

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x / ctx.norm


class Array(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.cosine = np.cos(x.numpy(force=True))
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        return grad * torch.from_numpy(ctx.cosine)


class WithSetup(Function):
    @staticmethod
    def forward(x):
        return x.exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.derivative = inputs[0].exp()

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.derivative


class Normalised(Function):
    """A layer norm as it is often written: mean and deviation are kept."""

    @staticmethod
    def forward(ctx, x):
        mean, std = x.mean(-1, keepdim=True), x.std(-1, correction=0, keepdim=True)
        ctx.save_for_backward(x, mean, std)
        return (x - mean) / std

    @staticmethod
    def backward(ctx, grad):
        x, mean, std = ctx.saved_tensors
        y = (x - mean) / std
        return (grad - grad.mean(-1, keepdim=True) - y * (grad * y).mean(-1, keepdim=True)) / std


class Detached(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.detach().cos()


class NotRecorded(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        with torch.no_grad():
            cosine = x.cos()
        return grad * cosine


class Once(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.cos()


class Input(Function):
    """Right: an input, on ctx or saved, keeps its history."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.x = x
        ctx.save_for_backward(w)
        return x**2 * w.sin()

    @staticmethod
    def backward(ctx, grad):
        (w,) = ctx.saved_tensors
        return grad * 2 * ctx.x * w.sin(), grad * ctx.x**2 * w.cos()


class Output(Function):
    """Right: an output is given its history when forward returns."""

    @staticmethod
    def forward(ctx, x):
        y = x.sigmoid()
        ctx.save_for_backward(y)
        ctx.scale = 1.0
        ctx.shape = x.shape
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return ctx.scale * grad * y * (1 - y)


class IntermediateAsOutput(Function):
    """Right: pytorch's own advice. The intermediate is an output too, with a gradient of its own."""

    @staticmethod
    def forward(ctx, x):
        t = x * 2
        ctx.save_for_backward(t)
        return t**2, t

    @staticmethod
    def backward(ctx, of_square, of_t):
        (t,) = ctx.saved_tensors
        return 2 * (2 * t * of_square + of_t)


class ByAnotherFunction(Function):
    """Right: the backward is a Function with a backward."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return SineBackward.apply(grad, x)


class SineBackward(Function):
    @staticmethod
    def forward(ctx, grad, x):
        ctx.save_for_backward(grad, x)
        return grad * x.cos()

    @staticmethod
    def backward(ctx, more):
        grad, x = ctx.saved_tensors
        return more * x.cos(), -more * grad * x.sin()


class Mask(Function):
    """Right: what is kept changes with the input in jumps only, and its derivative is zero."""

    @staticmethod
    def forward(ctx, x):
        ctx.mask = x > 0
        return x * ctx.mask

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.mask
