# code: BS202
# variable: h
# cause: h.index_add_(0, edges[1], messages)
# fix: h.index_add(0, edges[1], messages)
import torch
from torch import nn


class MessagePassing(nn.Module):
    def __init__(self, width, rounds):
        super().__init__()
        self.message = nn.Linear(width, width)
        self.rounds = rounds

    def forward(self, h, edges):
        for _ in range(self.rounds):
            messages = torch.relu(self.message(h))[edges[0]]
            h.index_add_(0, edges[1], messages)
        return h


width = 5
embed, net, readout = nn.Linear(2, width), MessagePassing(width, 2), nn.Linear(width, 1)
nodes, edges = torch.randn(4, 2), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
params = [p for m in (embed, net, readout) for p in m.parameters()]
optimizer = torch.optim.Adam(params)
loss = readout(net(embed(nodes), edges)).mean().abs()
loss.backward()
optimizer.step()
