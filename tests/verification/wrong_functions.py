"""Functions whose backward is wrong, as people write them, and some that are right."""

from __future__ import annotations

import torch
from torch.autograd import Function


class Poly(Function):
    """A term outside of the product: from a tutorial."""

    @staticmethod
    def forward(ctx, input):
        ctx.save_for_backward(input)
        return 3 * input**2 + 2 * input + 1

    @staticmethod
    def backward(ctx, grad_output):
        (input,) = ctx.saved_tensors
        return grad_output * 6 * input + 2


class BadReLU(Function):
    """Ones instead of grad_output: from the same tutorial."""

    @staticmethod
    def forward(ctx, input):
        ctx.save_for_backward(input)
        return input.clamp(min=0)

    @staticmethod
    def backward(ctx, grad_output):
        (input,) = ctx.saved_tensors
        grad_input = grad_output.clone()
        grad_input[input < 0] = 0
        grad_input[input >= 0] = 1
        return grad_input


class Mutates(Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, grad):
        (y,) = ctx.saved_tensors
        return grad.mul_(y)


class Noisy(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x.cos() * (1 + 1e-3 * torch.rand_like(x))


class Squares(Function):
    """grad_output twice in the product."""

    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, grad):
        return 2 * grad * grad


class Clips(Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad.clamp(-1, 1)


class Normalises(Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        return grad / grad.norm()


class WrongShape(Function):
    @staticmethod
    def forward(ctx, x):
        return x.sum(0)

    @staticmethod
    def backward(ctx, grad):
        return grad.repeat(7)


class TooFew(Function):
    @staticmethod
    def forward(ctx, x, w):
        return x * w

    @staticmethod
    def backward(ctx, grad):
        return grad


class Forgets(Function):
    """None for an input that needs a gradient."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x * weight

    @staticmethod
    def backward(ctx, grad):
        _, weight = ctx.saved_tensors
        return grad * weight, None


class Single(Function):
    """Double precision in, single precision out."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return (2 * grad * x).float()


class SpoilsSaved(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.factor = x.cos()
        return x.sin()

    @staticmethod
    def backward(ctx, grad):
        return ctx.factor.mul_(grad)


class Halves(Function):
    """Linear, but half of what is right: only a rerun of forward can tell."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**2

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x


class Right(Function):
    """Two inputs, two outputs, an argument that is no tensor, and one gradient that is not needed."""

    @staticmethod
    def forward(ctx, x, power, w):
        ctx.save_for_backward(x, w)
        ctx.power = power
        return x**power, x * w

    @staticmethod
    def backward(ctx, of_power, of_product):
        x, w = ctx.saved_tensors
        return of_power * ctx.power * x ** (ctx.power - 1) + of_product * w, None, of_product * x
