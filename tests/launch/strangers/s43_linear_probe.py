"""Train a backbone on a source domain, then a second head on a target domain."""
import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

CFG = {
    "dim": 20, "width": 64, "batch_size": 64, "lr": 3e-3,
    "source": {"classes": 5, "n": 1600, "epochs": 5, "shift": 0.0, "scale": 1.0},
    "target": {"classes": 3, "n": 960, "epochs": 6, "shift": 2.5, "scale": 2.0},
}


def domain(spec, seed, n=None):
    g = torch.Generator().manual_seed(seed)
    proto = torch.randn(spec["classes"], CFG["dim"],
                        generator=torch.Generator().manual_seed(spec["classes"]))
    n = n or spec["n"]
    y = torch.randint(0, spec["classes"], (n,), generator=g)
    x = proto[y] + 0.9 * torch.randn(n, CFG["dim"], generator=g)
    return TensorDataset(spec["scale"] * x + spec["shift"], y)


class Backbone(nn.Module):
    def __init__(self, dim, width):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(dim, width), nn.BatchNorm1d(width), nn.ReLU(),
            nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(),
        )

    def forward(self, x):
        return self.layers(x)


class MultiHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = Backbone(CFG["dim"], CFG["width"])
        self.heads = nn.ModuleDict({
            name: nn.Linear(CFG["width"], CFG[name]["classes"]) for name in ("source", "target")
        })

    def forward(self, x, head):
        return self.heads[head](self.backbone(x))


def freeze(module):
    for p in module.parameters():
        p.requires_grad_(False)


def run_epoch(model, head, loader, optimizer):
    model.train()
    loss_sum = 0.0
    for x, y in loader:
        loss = F.cross_entropy(model(x, head), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss_sum += loss.item()
    return loss_sum / len(loader)


@torch.no_grad()
def evaluate(model, head):
    model.eval()
    x, y = domain(CFG[head], seed=50, n=1000).tensors
    return (model(x, head).argmax(1) == y).float().mean().item()


def fit(model, head, params):
    optimizer = torch.optim.Adam(params, lr=CFG["lr"])
    loader = DataLoader(domain(CFG[head], seed=1), CFG["batch_size"], shuffle=True, drop_last=True)
    for epoch in range(CFG[head]["epochs"]):
        loss = run_epoch(model, head, loader, optimizer)
        print(f"[{head}] epoch {epoch} loss {loss:.3f} source acc {evaluate(model, 'source'):.3f} "
              f"target acc {evaluate(model, 'target'):.3f}")


def main():
    torch.manual_seed(0)
    model = MultiHead()
    fit(model, "source", list(model.backbone.parameters()) + list(model.heads["source"].parameters()))
    freeze(model.backbone)
    freeze(model.heads["source"])
    fit(model, "target", model.heads["target"].parameters())


if __name__ == "__main__":
    main()
