# code: BS208
# variable: lengths
# cause: grad_lengths = -(solved * weight).sum(dim=(0, 1))
# fix: write `grad_lengths = -(solved * weight).sum((0, 2))`
import torch


class Penalised(torch.autograd.Function):
    """Weights of a penalised least squares, one penalty for each feature, for a batch of tasks."""

    @staticmethod
    def forward(ctx, design, target, lengths):
        normal = design.mT @ design + torch.diag(lengths)
        weight = torch.linalg.solve(normal, design.mT @ target)
        ctx.save_for_backward(design, target, normal, weight)
        return weight

    @staticmethod
    def backward(ctx, grad):
        design, target, normal, weight = ctx.saved_tensors
        solved = torch.linalg.solve(normal, grad)
        rest = target - design @ weight
        grad_lengths = -(solved * weight).sum(dim=(0, 1))
        return rest @ solved.mT - (design @ solved) @ weight.mT, design @ solved, grad_lengths


design, target = torch.randn(6, 9, 5, dtype=torch.double), torch.randn(6, 9, 2, dtype=torch.double)
lengths = torch.ones(5, dtype=torch.double, requires_grad=True)
Penalised.apply(design, target, lengths).square().sum().backward()
