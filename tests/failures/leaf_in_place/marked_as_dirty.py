# code: BS205
# variable: weight
# cause: AddOne.apply(weight)
# fix: weight.clone()
import torch


class AddOne(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.add_(1)


weight = torch.randn(3, requires_grad=True)
AddOne.apply(weight)
