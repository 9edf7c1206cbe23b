# code: BS200
# variable: Exchange.apply(2 * left, 3 * right)
# cause: return left, right.clone()
# fix: Return right itself as one of the outputs
import torch


class Exchange(torch.autograd.Function):
    @staticmethod
    def forward(ctx, left, right):
        left.mul_(2)
        right.mul_(4)
        ctx.mark_dirty(left, right)
        return left, right.clone()

    @staticmethod
    def backward(ctx, of_left, of_right):
        return 2 * of_left, 4 * of_right


left, right = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
one, other = Exchange.apply(2 * left, 3 * right)
(one * other).sum().backward()
print(left.grad, right.grad)
