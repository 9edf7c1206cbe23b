# code: BS208
# variable: x
# cause: grad_value = grad_output * ctx.gate.sigmoid()
# fix: one gradient for each entry of x
import torch


class Gate(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, half):
        value, ctx.gate = x[:, :half], x[:, half:]
        return value * ctx.gate.sigmoid()

    @staticmethod
    def backward(ctx, grad_output):
        grad_value = grad_output * ctx.gate.sigmoid()
        return grad_value, None


x = torch.randn(4, 6, requires_grad=True)
for _ in range(2):
    Gate.apply(x, x.shape[1] // 2).sum().backward()
