# code: BS203
# variable: loss
# cause: return (mem > 1.0).float()
# fix: torch.sigmoid(mem - 1.0)
import torch
import torch.nn as nn
import torch.nn.functional as F


class SNN(nn.Module):
    def __init__(self, d_in=8, hidden=32, classes=3, beta=0.9):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(d_in, hidden), nn.Linear(hidden, classes)
        self.beta = beta

    def spike(self, mem):
        return (mem > 1.0).float()

    def forward(self, x, steps=10):
        m1 = torch.zeros(x.size(0), self.fc1.out_features)
        m2 = torch.zeros(x.size(0), self.fc2.out_features)
        counts = torch.zeros_like(m2)
        for _ in range(steps):
            m1 = self.beta * m1 + self.fc1(x)
            s1 = self.spike(m1)
            m1 = m1 - s1
            m2 = self.beta * m2 + self.fc2(s1)
            s2 = self.spike(m2)
            m2 = m2 - s2
            counts = counts + s2
        return counts / steps


def loss_fn(rate, y):
    target = F.one_hot(y, rate.size(1)).float()
    return F.mse_loss(rate, target)


def loader(n, size=32):
    for _ in range(n):
        y = torch.randint(0, 3, (size,))
        yield torch.eye(3, 8)[y] * 2 + 0.3 * torch.randn(size, 8), y


def main():
    torch.manual_seed(0)
    net = SNN()
    opt = torch.optim.Adam(net.parameters(), lr=2e-3)
    for epoch in range(3):
        for x, y in loader(20):
            loss = loss_fn(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(epoch, loss.item())


main()
