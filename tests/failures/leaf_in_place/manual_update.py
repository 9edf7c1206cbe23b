# code: BS205
# variable: weights["w1"]
# cause: weights[name] -= config["lr"] * weights[name].grad
# fix: torch.no_grad()
import torch

config = {"lr": 0.1, "steps": 2, "hidden": 5}
weights = {
    "w1": torch.randn(3, config["hidden"], requires_grad=True),
    "w2": torch.randn(config["hidden"], 1, requires_grad=True),
}
x, y = torch.randn(10, 3), torch.randn(10, 1)
for _ in range(config["steps"]):
    loss = ((torch.tanh(x @ weights["w1"]) @ weights["w2"] - y) ** 2).mean()
    loss.backward()
    for name in weights:
        weights[name] -= config["lr"] * weights[name].grad
        weights[name].grad = None
