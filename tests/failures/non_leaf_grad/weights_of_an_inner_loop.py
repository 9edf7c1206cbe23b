# code: BS213
# variable: weight.grad
# cause: slope = weight.grad
# fix: slope = torch.autograd.grad(inner, weight, create_graph=True)[0]
import torch
import torch.nn.functional as F


class Fast:
    """A net whose weights are plain tensors, so that an inner loop can replace them."""

    def __init__(self, weights):
        self.weights = dict(weights)

    def put(self, name, value):
        self.weights[name] = value

    def __call__(self, x):
        return torch.tanh(x @ self.weights["a"]) @ self.weights["b"]


torch.manual_seed(0)
slow = {"a": torch.randn(1, 8, requires_grad=True), "b": torch.randn(8, 1, requires_grad=True)}
optimizer = torch.optim.Adam(slow.values(), lr=0.01)
for task in range(3):
    fast, x = Fast(slow), torch.randn(10, 1)
    y = (1 + task) * torch.sin(x)
    for _ in range(2):
        inner = F.mse_loss(fast(x), y)
        inner.backward(create_graph=True)
        for name, weight in list(fast.weights.items()):
            slope = weight.grad
            fast.put(name, weight - 0.05 * slope)
    outer = F.mse_loss(fast(x), y)
    optimizer.zero_grad()
    outer.backward()
    optimizer.step()
