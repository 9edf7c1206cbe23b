# code: BS200
# variable: loss
# cause: return torch.autograd.grad(again, x, grad_output), None
# fix: return *torch.autograd.grad(again, x, grad_output), None
import torch


class Smooth(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, width):
        ctx.save_for_backward(x)
        ctx.width = width
        return (x / width).sigmoid()

    @staticmethod
    def backward(ctx, grad_output):
        x = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.enable_grad():
            again = (x / ctx.width).sigmoid()
        return torch.autograd.grad(again, x, grad_output), None


torch.manual_seed(0)
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
x = torch.randn(20, 4)

for step in range(4):
    loss = (Smooth.apply(net(x), 0.5) - (x[:, :1] > 0).float()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
