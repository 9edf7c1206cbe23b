"""A variational graph autoencoder predicts links."""

import torch
from _digest import digest
from torch_geometric import seed_everything
from torch_geometric.nn import VGAE, SAGEConv
from torch_geometric.utils import erdos_renyi_graph

seed_everything(0)
edges = erdos_renyi_graph(60, 0.08)
x = torch.eye(60)


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.mean, self.logstd = SAGEConv(60, 16), SAGEConv(16, 8), SAGEConv(16, 8)

    def forward(self, x, edges):
        x = self.conv(x, edges).relu()
        return self.mean(x, edges), self.logstd(x, edges)


model = VGAE(Encoder())
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(50):
    model.train()
    optimizer.zero_grad()
    z = model.encode(x, edges)
    loss = model.recon_loss(z, edges) + model.kl_loss() / 60
    loss.backward()
    optimizer.step()
print(loss.item())
print(digest(model))
