# code: BS217
# variable: inner
# cause: inner.backward(create_graph=True)
# fix: torch.autograd.grad
import torch


class Learner:
    def __init__(self, lr):
        self.w = torch.randn(3, 1, requires_grad=True)
        self.lr = lr

    def outer_loss(self, task):
        x, y = task
        inner = ((x @ self.w - y) ** 2).mean()
        inner.backward(create_graph=True)
        adapted = self.w - self.lr * self.w.grad
        return ((x @ adapted - y) ** 2).mean()


learner = Learner(lr=0.1)
loss = learner.outer_loss((torch.randn(4, 3), torch.randn(4, 1)))
(gradient,) = torch.autograd.grad(loss, learner.w)
