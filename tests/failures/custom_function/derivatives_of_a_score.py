# code: BS200
# variable: loss
# cause: return along_x, along_scale
# fix: return *along_x, *along_scale
import torch


class Score(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x, scale)
        return (x * scale).tanh().sum()

    @staticmethod
    def backward(ctx, grad_output):
        x, scale = ctx.saved_tensors
        again = (x * scale).tanh().sum()
        again.requires_grad = True
        along_x = torch.autograd.grad(again, x, grad_output, allow_unused=True)
        along_scale = torch.autograd.grad(again, scale, grad_output, allow_unused=True)
        return along_x, along_scale


torch.manual_seed(0)
scale = torch.nn.Parameter(torch.rand(4))
optimizer = torch.optim.SGD([scale], lr=0.05)
rows = torch.rand(3, 4, requires_grad=True)

for step in range(4):
    loss = (Score.apply(rows, scale) - 2).square()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
