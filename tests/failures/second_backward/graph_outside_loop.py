# code: BS201
# variable: adjacency
# cause: adjacency = torch.softmax(torch.relu(model.source @ model.target.T), dim=1)
# fix: inside the loop
import torch
from torch import nn


class GraphNet(nn.Module):
    """A graph convolution over an adjacency that is learnt from node embeddings."""

    def __init__(self, nodes, features, rank=4):
        super().__init__()
        self.source = nn.Parameter(torch.randn(nodes, rank))
        self.target = nn.Parameter(torch.randn(nodes, rank))
        self.weight = nn.Linear(features, 1)

    def forward(self, x, adjacency):
        return self.weight(adjacency @ x)


def fit(model, batches, epochs=3):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    adjacency = torch.softmax(torch.relu(model.source @ model.target.T), dim=1)
    for _ in range(epochs):
        for x, y in batches:
            prediction = model(x, adjacency)
            loss = (prediction - y).abs().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


fit(GraphNet(6, 3), [(torch.randn(6, 3), torch.randn(6, 1)) for _ in range(2)])
