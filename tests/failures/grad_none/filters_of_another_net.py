# code: BS213
# variable: transform.linear.weight.grad
# cause: cnn.conv.weight.data = filters.view(4, 1, 3, 3)
# fix: torch.func.functional_call(cnn, {"conv.weight": filters.view(4, 1, 3, 3)}, (image,))
"""A network that turns the filters of a trained one, by the angle of its images."""

import torch
from torch import nn


class Transform(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(37, 36, bias=False)

    def forward(self, filters, angle):
        return self.linear(torch.cat([filters, angle], dim=1))


class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(torch.relu(self.conv(x)).mean((2, 3)))


torch.manual_seed(0)
cnn, transform = CNN(), Transform()
trained = cnn.conv.weight.detach().clone().view(1, -1)
optimizer = torch.optim.SGD(transform.parameters(), lr=0.1)
for step in range(3):
    image, label = torch.randn(8, 1, 8, 8), torch.randint(0, 2, (8,))
    filters = transform(trained, torch.tensor([[step / 4.0]]))
    cnn.conv.weight.data = filters.view(4, 1, 3, 3)
    out = cnn(image)
    loss = nn.functional.cross_entropy(out, label)
    optimizer.zero_grad()
    loss.backward()
    print(transform.linear.weight.grad.norm())
    optimizer.step()
