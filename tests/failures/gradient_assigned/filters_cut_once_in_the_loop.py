# code: BS208
# variable: net.first.weight
# cause: net.first.weight.data = net.first.weight.data[strongest]
# fix: if all(p is not net.first.weight for group in optimizer.param_groups
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 10)
        self.second = nn.Linear(10, 2)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


def prune(net, step, keep):
    if step != 2:
        return
    strongest = net.first.weight.norm(dim=1).topk(keep).indices
    net.first.weight.data = net.first.weight.data[strongest]
    net.first.bias.data = net.first.bias.data[strongest]
    net.second.weight.data = net.second.weight.data[:, strongest]


def main():
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for step in range(6):
        prune(net, step, 7)
        x = torch.randn(16, 6)
        loss = nn.functional.mse_loss(net(x), x[:, :2])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


main()
