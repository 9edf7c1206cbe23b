"""Graph attention classifies batches of small graphs."""

import torch
from _digest import digest
from torch.nn import functional as F
from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader
from torch_geometric.nn import GATv2Conv, GraphNorm, global_mean_pool

seed_everything(0)
graphs = [
    Data(x=torch.randn(n, 6) + n % 2, edge_index=torch.randint(0, n, (2, 3 * n)), y=torch.tensor([n % 2]))
    for n in torch.randint(6, 14, (96,)).tolist()
]


class GAT(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = GATv2Conv(6, 8, heads=2), GraphNorm(16)
        self.second, self.head = GATv2Conv(16, 16, dropout=0.1), torch.nn.Linear(16, 2)

    def forward(self, x, edge_index, batch):
        x = F.elu(self.norm(self.first(x, edge_index), batch))
        return self.head(global_mean_pool(self.second(x, edge_index), batch))


model = GAT()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
for epoch in range(5):
    total = 0.0
    for batch in DataLoader(graphs, batch_size=16, shuffle=True):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(batch.x, batch.edge_index, batch.batch), batch.y)
        loss.backward()
        optimizer.step()
        total += float(loss) * batch.num_graphs
    print(epoch, total / len(graphs))
print(digest(model))
