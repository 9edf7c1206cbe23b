# code: BS226
# variable: residual.abs() < delta
# cause: if residual.abs() < delta:
# fix: torch.where(residual.abs() < delta
import torch


def huber(prediction, target, delta=1.0):
    residual = prediction - target
    if residual.abs() < delta:
        return 0.5 * residual**2
    return delta * (residual.abs() - 0.5 * delta)


class Fit:
    def __init__(self):
        self.loss = torch.vmap(huber)

    def __call__(self, x, y):
        return self.loss(x, y).mean()


print(Fit()(torch.randn(8), torch.randn(8)))
