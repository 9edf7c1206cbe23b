# code: BS203
# variable: loss
# cause: return (out.round().long() - target).float().mean()
# fix: return ((out + (out.round().long() - out).detach()) - target).float().mean()
import torch
from torch import nn

model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, labels = torch.randn(8, 4), torch.randint(0, 3, (8,))


class Loss(nn.Module):
    def forward(self, out, target):
        return (out.round().long() - target).float().mean()


criterion = Loss()
target = model(x).detach()
loss = criterion(model(x), target.long())
loss.backward()
