"""An equivariant graph network moves points toward their targets."""

import torch
from _digest import digest
from egnn_pytorch import EGNN_Network

torch.manual_seed(0)
net = EGNN_Network(num_tokens=8, dim=16, depth=2, num_nearest_neighbors=4)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
feats, coors = torch.randint(0, 8, (8, 10)), torch.randn(8, 10, 3)
mask = torch.ones_like(feats).bool()
for _ in range(25):
    out, moved = net(feats, coors, mask=mask)
    loss = (moved - coors * 1.1).square().mean() + out.square().mean() * 0.01
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
print(digest(net))
