"""A graph convolution classifies nodes, over the whole graph at once."""

import torch
from _digest import digest
from torch.nn import functional as F
from torch_geometric import seed_everything
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv

seed_everything(0)
data = Data(x=torch.randn(120, 12), edge_index=torch.randint(0, 120, (2, 500)), y=torch.randint(0, 4, (120,)))
data.train_mask = torch.rand(120) > 0.5


class GCN(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = GCNConv(12, 16), GCNConv(16, 4)

    def forward(self, data):
        x = F.relu(self.conv1(data.x, data.edge_index))
        return F.log_softmax(self.conv2(F.dropout(x, training=self.training), data.edge_index), dim=1)


model = GCN()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
for _ in range(80):
    model.train()
    optimizer.zero_grad()
    out = model(data)
    loss = F.nll_loss(out[data.train_mask], data.y[data.train_mask])
    loss.backward()
    optimizer.step()
model.eval()
print((model(data).argmax(dim=1) == data.y)[~data.train_mask].float().mean().item())
print(digest(model))
