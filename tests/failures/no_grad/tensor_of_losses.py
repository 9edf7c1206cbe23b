# code: BS203
# variable: total
# cause: stacked = torch.tensor([losses[k] for k in sorted(losses)])
# fix: torch.stack([losses[k] for k in sorted(losses)])
import torch
import torch.nn as nn


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(16, 32), nn.ReLU())
        self.heads = nn.ModuleDict({"depth": nn.Linear(32, 1), "normal": nn.Linear(32, 3), "label": nn.Linear(32, 5)})

    def forward(self, x):
        h = self.trunk(x)
        return {name: head(h) for name, head in self.heads.items()}


class LossBalancer:
    def __init__(self, weights):
        self.weights = torch.tensor([weights[k] for k in sorted(weights)])

    def combine(self, losses):
        stacked = torch.tensor([losses[k] for k in sorted(losses)])
        return (self.weights * stacked).sum()


def task_losses(out, batch):
    return {
        "depth": nn.functional.l1_loss(out["depth"], batch["depth"]),
        "normal": (1 - nn.functional.cosine_similarity(out["normal"], batch["normal"])).mean(),
        "label": nn.functional.cross_entropy(out["label"], batch["label"]),
    }


def batch_of(n):
    return {"x": torch.randn(n, 16), "depth": torch.rand(n, 1), "normal": torch.randn(n, 3), "label": torch.randint(0, 5, (n,))}


torch.manual_seed(0)
net = MultiTask()
balancer = LossBalancer({"depth": 1.0, "normal": 0.5, "label": 2.0})
optim = torch.optim.AdamW(net.parameters(), lr=1e-3)
for step in range(4):
    b = batch_of(8)
    losses = task_losses(net(b["x"]), b)
    total = balancer.combine(losses)
    optim.zero_grad()
    total.backward()
    optim.step()
    print(step, total.item())
