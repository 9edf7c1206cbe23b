# code: BS203
# variable: loss
# cause: @torch.no_grad()
# fix: with torch.enable_grad(): value = closure()
import torch


class Sharp(torch.optim.Optimizer):
    def __init__(self, parameters, lr=0.1, radius=0.05):
        super().__init__(parameters, {"lr": lr, "radius": radius})

    def uphill(self, sign):
        for group in self.param_groups:
            for p in group["params"]:
                if "way" not in self.state[p]:
                    self.state[p]["way"] = p.grad / (p.grad.norm() + 1e-12)
                p.add_(self.state[p]["way"], alpha=sign * group["radius"])
                if sign < 0:
                    p.add_(p.grad, alpha=-group["lr"])
                    del self.state[p]["way"]

    @torch.no_grad()
    def step(self, closure):
        self.uphill(1)
        self.zero_grad()
        value = closure()
        self.uphill(-1)
        return value


torch.manual_seed(0)
model = torch.nn.Linear(3, 1)
optimizer = Sharp(model.parameters())
x, y = torch.randn(16, 3), torch.randn(16, 1)


def closure():
    loss = (model(x) - y).square().mean()
    loss.backward()
    return loss


for _ in range(3):
    closure()
    optimizer.step(closure)
