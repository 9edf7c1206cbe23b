# code: BS201
# variable: Y
# cause: Y = X @ true_w + true_b
# fix: Y = (X @ true_w + true_b).detach()
import torch

torch.manual_seed(0)
X = torch.randn(40, 2)
true_w = torch.tensor([[2.0], [-3.0]], requires_grad=True)
true_b = torch.tensor([4.0], requires_grad=True)
Y = X @ true_w + true_b


class Batches:
    def __init__(self, features, labels, size):
        self.features, self.labels, self.size = features, labels, size

    def __iter__(self):
        order = torch.randperm(len(self.features))
        for i in range(0, len(order), self.size):
            rows = order[i : i + self.size]
            yield self.features[rows], self.labels[rows]


w = torch.zeros(2, 1, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
batches = Batches(X, Y, 10)
for epoch in range(3):
    for x, y in batches:
        loss = (x @ w + b - y).square().mean()
        loss.backward()
        with torch.no_grad():
            for each in (w, b):
                each -= 0.1 * each.grad
                each.grad.zero_()
