# code: BS204
# variable: self.logits
# cause: slope = torch.autograd.grad(fit, weight)[0]
# fix: slope = torch.autograd.grad(fit, weight, create_graph=True)[0]
import torch


class Reweighting:
    def __init__(self, examples):
        self.logits = torch.zeros(examples, requires_grad=True)
        self.weight = torch.zeros(4, requires_grad=True)

    def fitted(self, x, y):
        fit = (self.logits.softmax(0) * (x @ self.weight - y).square()).sum()
        weight = self.weight
        slope = torch.autograd.grad(fit, weight)[0]
        return weight - 0.1 * slope

    def step(self, train, clean):
        weight = self.fitted(*train)
        error = (clean[0] @ weight - clean[1]).square().mean()
        (direction,) = torch.autograd.grad(error, [self.logits])
        self.logits = (self.logits - direction).detach().requires_grad_()


def sample(n):
    return torch.randn(n, 4), torch.randn(n)


learner = Reweighting(16)
for _ in range(3):
    learner.step(sample(16), sample(8))
