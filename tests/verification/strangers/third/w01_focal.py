import torch
import torch.nn.functional as F
from torch.autograd import Function


class FocalLoss(Function):
    """binary focal loss on logits: -(1-pt)^gamma * log(pt), per element"""

    @staticmethod
    def forward(ctx, logits, target, gamma):
        p = torch.sigmoid(logits)
        pt = torch.where(target > 0.5, p, 1 - p)
        ctx.save_for_backward(pt, target)
        ctx.gamma = gamma
        return -(1 - pt) ** gamma * torch.log(pt)

    @staticmethod
    def backward(ctx, grad_output):
        pt, target = ctx.saved_tensors
        sign = 2 * target - 1
        # d log(pt) / d logit = (1 - pt) * sign
        grad = -(1 - pt) ** ctx.gamma * (1 - pt) * sign
        return grad_output * grad, None, None


def f(x, w, target):
    logits = (x @ w).squeeze(1)
    return FocalLoss.apply(logits, target, 2.0).mean()


def inputs():
    torch.manual_seed(1)
    x = torch.randn(12, 5, dtype=torch.float64, requires_grad=True)
    w = torch.randn(5, 1, dtype=torch.float64, requires_grad=True)
    target = (torch.rand(12) > 0.5).double()
    return x, w, target
