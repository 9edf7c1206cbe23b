# code: BS202
# variable: net.anchors['far']
# cause: self.anchors = {each: self.mix(torch.tanh(self.embed(torch.ones(4)))) for each in names}
# fix: Compute net.anchors['far'] in forward
import torch
from torch import nn


class Anchored(nn.Module):
    def __init__(self, names):
        super().__init__()
        self.embed, self.mix, self.out = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)
        self.anchors = {each: self.mix(torch.tanh(self.embed(torch.ones(4)))) for each in names}

    def forward(self, x, name):
        return self.out(self.embed(x) * self.anchors[name])


net = Anchored(["near", "far"])
optimizer = torch.optim.Adam(net.parameters(), lr=0.1)


def train(x):
    loss = net(x, "far").square().mean()
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()


for _ in range(3):
    train(torch.randn(3, 4))
