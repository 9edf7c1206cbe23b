"""Graph convolution for node classification on a stochastic block graph."""
import torch
import torch.nn as nn
import torch.nn.functional as F

config = {
    "nodes": 400, "blocks": 4, "p_in": 0.04, "p_out": 0.006, "features": 120, "signal": 6,
    "hidden": 6, "epochs": 120, "weight_decay": 5e-4, "base_lr": 0.01, "seed": 0,
    "lr_mult": {"embed": 0.5, "convs": 1.0, "head": 2.0},
}


def block_graph(cfg):
    g = torch.Generator().manual_seed(cfg["seed"])
    n, k = cfg["nodes"], cfg["blocks"]
    label = torch.randint(0, k, (n,), generator=g)
    same = label[:, None] == label[None, :]
    prob = torch.where(same, torch.tensor(cfg["p_in"]), torch.tensor(cfg["p_out"]))
    upper = torch.triu(torch.rand(n, n, generator=g) < prob, diagonal=1)
    adj = (upper | upper.t()).float() + torch.eye(n)
    deg = adj.sum(1).rsqrt()
    centers = 1.0 * torch.randn(k, cfg["signal"], generator=g)
    noise = torch.randn(n, cfg["features"], generator=g)
    noise[:, :cfg["signal"]] += centers[label]
    return noise, deg[:, None] * adj * deg[None, :], label


class GraphConv(nn.Module):
    def __init__(self, d_in, d_out):
        super().__init__()
        self.lin = nn.Linear(d_in, d_out)

    def forward(self, x, adj):
        return adj @ self.lin(x)


class GCN(nn.Module):
    def __init__(self, d_in, hidden, classes):
        super().__init__()
        self.encoder = nn.Linear(d_in, hidden)
        self.convs = nn.ModuleList([GraphConv(hidden, hidden), GraphConv(hidden, hidden)])
        self.head = nn.Linear(hidden, classes)
        self.dropout = nn.Dropout(0.2)

    def forward(self, x, adj):
        h = F.relu(self.encoder(x))
        for conv in self.convs:
            h = h + F.relu(conv(self.dropout(h), adj))
        return self.head(h)


def param_groups(model, base_lr, lr_mult):
    """One parameter group per top-level module with its own learning rate."""
    groups = []
    for name, module in model.named_children():
        params = list(module.parameters())
        if params:
            groups.append({"params": params, "lr": base_lr * lr_mult.get(name, 0.0), "name": name})
    return groups


def split(n, seed=1):
    perm = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    return perm[:160], perm[160:240], perm[240:]


def main(cfg):
    torch.manual_seed(cfg["seed"])
    x, adj, label = block_graph(cfg)
    train, val, test = split(cfg["nodes"])
    model = GCN(cfg["features"], cfg["hidden"], cfg["blocks"])
    optimizer = torch.optim.Adam(param_groups(model, cfg["base_lr"], cfg["lr_mult"]),
                                 lr=cfg["base_lr"], weight_decay=cfg["weight_decay"])
    best_val, best_test = 0.0, 0.0
    for epoch in range(1, cfg["epochs"] + 1):
        model.train()
        loss = F.cross_entropy(model(x, adj)[train], label[train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

        model.eval()
        with torch.no_grad():
            pred = model(x, adj).argmax(1)
        acc = {k: (pred[i] == label[i]).float().mean().item()
               for k, i in (("train", train), ("val", val), ("test", test))}
        if acc["val"] > best_val:
            best_val, best_test = acc["val"], acc["test"]
        if epoch % 20 == 0:
            print(f"epoch {epoch:3d} loss {loss.item():.3f} train {acc['train']:.3f} "
                  f"val {acc['val']:.3f} test {acc['test']:.3f}")
    print(f"best val {best_val:.3f} test {best_test:.3f}")


if __name__ == "__main__":
    main(config)
