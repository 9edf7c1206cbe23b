"""Node classification on a planted-partition graph with a two-layer message passing network."""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def planted_partition(n=300, k=3, p_in=0.08, p_out=0.008, seed=5):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, k, n)
    same = labels[:, None] == labels[None, :]
    upper = np.triu(rng.random((n, n)) < np.where(same, p_in, p_out), 1)
    src, dst = np.nonzero(upper | upper.T)
    feats = rng.normal(size=(n, 16)).astype(np.float32)
    feats[:, :3] += 0.6 * np.eye(3, dtype=np.float32)[labels]
    return torch.from_numpy(feats), torch.from_numpy(np.stack([src, dst])), torch.from_numpy(labels)


class MeanAggregator:
    """Mean over the neighbours. Keeps a sorted edge list so that reduceat can be used."""

    def __init__(self, edge_index, num_nodes):
        src, dst = edge_index.numpy()
        order = np.argsort(dst, kind="stable")
        self.src, self.dst = src[order], dst[order]
        self.num_nodes = num_nodes
        self.degree = np.maximum(np.bincount(self.dst, minlength=num_nodes), 1)

    def __call__(self, messages):
        values = messages.detach().cpu().numpy()[self.src]
        out = np.zeros((self.num_nodes, values.shape[1]), dtype=values.dtype)
        np.add.at(out, self.dst, values)
        return torch.from_numpy(out / self.degree[:, None].astype(values.dtype))


class SageLayer(nn.Module):
    def __init__(self, d_in, d_out, aggregate):
        super().__init__()
        self.message = nn.Linear(d_in, d_out)
        self.update = nn.Linear(d_out, d_out)
        self.aggregate = aggregate

    def forward(self, x):
        return self.update(self.aggregate(self.message(x)))


class Sage(nn.Module):
    def __init__(self, d_in, hidden, classes, aggregate):
        super().__init__()
        self.conv1 = SageLayer(d_in, hidden, aggregate)
        self.conv2 = SageLayer(hidden, classes, aggregate)

    def forward(self, x):
        return self.conv2(torch.relu(self.conv1(x)))


def accuracy(logits, labels, mask):
    return (logits.argmax(1) == labels)[mask].float().mean().item()


def main():
    torch.manual_seed(0)
    x, edges, y = planted_partition()
    train = torch.zeros(len(y), dtype=torch.bool)
    train[torch.randperm(len(y))[:90]] = True
    model = Sage(x.size(1), 8, 3, MeanAggregator(edges, len(y)))
    opt = torch.optim.Adam(model.parameters(), lr=0.02)
    for epoch in range(1, 101):
        model.train()
        logits = model(x)
        loss = F.cross_entropy(logits[train], y[train])
        opt.zero_grad()
        loss.backward()
        opt.step()
        if epoch % 10 == 0:
            model.eval()
            with torch.no_grad():
                logits = model(x)
            print(f"epoch {epoch:3d} loss {loss.item():.4f} train {accuracy(logits, y, train):.3f} "
                  f"test {accuracy(logits, y, ~train):.3f}")


if __name__ == "__main__":
    main()
