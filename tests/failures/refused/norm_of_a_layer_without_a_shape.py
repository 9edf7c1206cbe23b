# code: BS200
# variable: layer
# cause: layer = nn.utils.weight_norm(layer)
# fix: put `with torch.no_grad(): net(images)` above line
import torch
from torch import nn


def normalized(net):
    for layer in net:
        if hasattr(layer, "weight"):
            layer = nn.utils.weight_norm(layer)
    return net


net = nn.Sequential(nn.LazyConv2d(3, 3), nn.Tanh(), nn.Flatten(), nn.LazyLinear(2))
images, labels = torch.randn(6, 1, 5, 5), torch.randint(2, (6,))
normalized(net)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(2):
    loss = nn.functional.cross_entropy(net(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
