# code: BS208
# variable: signal
# cause: grad_signal = grad_output * window
# fix: grad_signal = torch.nn.functional.pad(grad_output * window, (1, 1))
import torch
from torch import nn
from torch.autograd import Function


class Windowed(Function):
    @staticmethod
    def forward(ctx, signal, window):
        signal = signal[1:-1]
        ctx.save_for_backward(signal, window)
        return signal * window

    @staticmethod
    def backward(ctx, grad_output):
        signal, window = ctx.saved_tensors
        grad_signal = grad_output * window
        grad_window = grad_output * signal
        return grad_signal, grad_window


window = nn.Parameter(torch.hann_window(5))
signal = torch.randn(7, requires_grad=True)
Windowed.apply(signal, window).square().sum().backward()
