# code: BS216
# variable: config["weights"][0]
# cause: grads = [w.grad for w in config["weights"]]
# fix: requires_grad_
import torch

config = {"weights": [0.1 * torch.randn(3, 3, requires_grad=True) for _ in range(2)]}
x = torch.randn(2, 3)
for w in config["weights"]:
    x = torch.tanh(x @ w)
x.sum().backward()
grads = [w.grad for w in config["weights"]]
