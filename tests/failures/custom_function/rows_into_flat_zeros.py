# code: BS208
# variable: table
# cause: grad_table = torch.zeros(table.numel())
# fix: return grad_table.view_as(table), None
import torch


class Pick(torch.autograd.Function):
    @staticmethod
    def forward(ctx, table, places):
        ctx.save_for_backward(table, places)
        return table.flatten()[places]

    @staticmethod
    def backward(ctx, grad):
        table, places = ctx.saved_tensors
        grad_table = torch.zeros(table.numel())
        for k, place in enumerate(places.tolist()):
            grad_table[place] += grad[k]
        return grad_table, None


table = torch.rand(3, 4, requires_grad=True)
Pick.apply(table, torch.tensor([0, 5, 5])).sum().backward()
