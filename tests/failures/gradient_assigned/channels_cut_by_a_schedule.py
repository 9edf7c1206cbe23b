# code: BS208
# variable: net.wide.weight
# cause: model.wide.weight.data = model.wide.weight.data[kept]
# fix: below line 31, pass them to the optimizer
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.wide, self.narrow = nn.Linear(5, 8), nn.Linear(8, 1)

    def forward(self, x):
        return self.narrow(torch.relu(self.wide(x)))


class Schedule:
    def __init__(self, model, every):
        self.model, self.every = model, every

    def after(self, epoch):
        if epoch % self.every == 0:
            self.cut()

    def cut(self):
        model = self.model
        kept = model.wide.weight.data.abs().sum(1).argsort()[1:]
        model.wide.weight.data = model.wide.weight.data[kept]
        model.wide.bias.data = model.wide.bias.data[kept]
        model.narrow.weight.data = model.narrow.weight.data[:, kept]


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
schedule = Schedule(net, every=2)
x, y = torch.randn(32, 5), torch.randn(32, 1)
for epoch in range(1, 6):
    schedule.after(epoch)
    loss = nn.functional.mse_loss(net(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
