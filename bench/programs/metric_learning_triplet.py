"""Triplets mined in each batch, and a proxy loss with weights of its own."""

import torch
from _digest import digest
from pytorch_metric_learning import losses, miners
from torch import nn

torch.manual_seed(0)
trunk = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
miner, triplet = miners.MultiSimilarityMiner(), losses.TripletMarginLoss()
proxy = losses.ProxyAnchorLoss(num_classes=5, embedding_size=8)
optimizer = torch.optim.Adam(trunk.parameters(), lr=1e-3)
proxy_optimizer = torch.optim.SGD(proxy.parameters(), lr=0.01)
centers = torch.randn(5, 16)
for _step in range(60):
    labels = torch.randint(0, 5, (32,))
    embeddings = trunk(centers[labels] + torch.randn(32, 16))
    loss = triplet(embeddings, labels, miner(embeddings, labels)) + 0.1 * proxy(embeddings, labels)
    optimizer.zero_grad()
    proxy_optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    proxy_optimizer.step()
print(loss.item())
print(digest(trunk, proxy))
