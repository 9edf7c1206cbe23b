# code: BS207
# variable: Blend
# cause: return (None,) + tuple(g * each for each in shares)
# fix: return None, None, *tuple(g * each for each in shares)
import torch


class Blend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, shares, name, *pictures):
        ctx.shares, ctx.name = shares, name
        return sum(share * picture for share, picture in zip(shares, pictures))

    @staticmethod
    def backward(ctx, g):
        shares = ctx.shares
        return (None,) + tuple(g * each for each in shares)


torch.manual_seed(0)
layers = torch.nn.ModuleList(torch.nn.Linear(4, 3) for _ in range(3))
optimizer = torch.optim.SGD(layers.parameters(), lr=0.1)
x, y = torch.randn(8, 4), torch.randn(8, 3)
for step in range(4):
    out = Blend.apply([0.5, 0.3, 0.2], "sum", *[layer(x) for layer in layers])
    loss = (out - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
