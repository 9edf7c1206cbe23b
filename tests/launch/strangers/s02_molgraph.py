import numpy as np
import torch
from torch import nn

torch.manual_seed(1)
rng = np.random.default_rng(1)


def random_graph():
    n = rng.integers(5, 10)
    a = (rng.random((n, n)) < 0.35).astype(np.float32)
    a = np.maximum(a, a.T)
    np.fill_diagonal(a, 1.0)
    x = rng.normal(size=(n, 6)).astype(np.float32)
    deg = a.sum(1, keepdims=True)
    y = float(np.tanh((a / deg) @ x).sum())
    return torch.from_numpy(x), torch.from_numpy(a / deg), y


def collate(graphs):
    xs, batch, total = [], [], sum(g[0].shape[0] for g in graphs)
    adj = torch.zeros(total, total)
    off = 0
    for k, (x, a, _) in enumerate(graphs):
        n = x.shape[0]
        xs.append(x)
        adj[off:off + n, off:off + n] = a
        batch += [k] * n
        off += n
    return torch.cat(xs), adj, torch.tensor(batch), torch.tensor([[g[2]] for g in graphs])


class GCNLayer(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.lin = nn.Linear(i, o)

    def forward(self, x, adj):
        return torch.relu(self.lin(adj @ x))


def segment_mean(h, batch):
    arr = h.detach().cpu().numpy()
    ids = batch.numpy()
    rows = [arr[ids == k].mean(axis=0) for k in range(ids.max() + 1)]
    return torch.from_numpy(np.stack(rows))


class GraphRegressor(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.conv1 = GCNLayer(6, hidden)
        self.conv2 = GCNLayer(hidden, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x, adj, batch):
        h = self.conv1(x, adj)
        h = self.conv2(h, adj)
        return self.out(segment_mean(h, batch))


graphs = [random_graph() for _ in range(256)]
net = GraphRegressor()
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
crit = nn.MSELoss()
w0 = net.conv1.lin.weight.detach().clone()
for epoch in range(12):
    order = rng.permutation(len(graphs))
    losses = []
    for s in range(0, len(graphs), 16):
        x, adj, b, y = collate([graphs[i] for i in order[s:s + 16]])
        optimizer.zero_grad()
        loss = crit(net(x, adj, b), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    if epoch % 3 == 2:
        print('epoch', epoch, 'mse', round(float(np.mean(losses)), 4))
print('conv1 change', float((net.conv1.lin.weight - w0).abs().max()))
