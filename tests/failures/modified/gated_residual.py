# code: BS202
# variable: out
# cause: out *= self.se(out)
# fix: out = out * self.se(out)
import torch
import torch.nn as nn


class SqueezeExcite(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.fc = nn.Sequential(nn.Conv2d(ch, ch // 2, 1), nn.ReLU(), nn.Conv2d(ch // 2, ch, 1), nn.Sigmoid())

    def forward(self, x):
        return self.fc(x).mean((2, 3), keepdim=True)


class SEBlock(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.conv1 = nn.Conv2d(ch, ch, 3, padding=1)
        self.bn = nn.BatchNorm2d(ch)
        self.conv2 = nn.Conv2d(ch, ch, 3, padding=1)
        self.se = SqueezeExcite(ch)

    def forward(self, x):
        identity = x
        out = torch.relu(self.bn(self.conv1(x)))
        out = self.conv2(out)
        out *= self.se(out)
        out += identity
        return torch.relu(out)


class Classifier(nn.Module):
    def __init__(self, ch=8, depth=3):
        super().__init__()
        self.stem = nn.Conv2d(1, ch, 3, padding=1)
        self.blocks = nn.Sequential(*[SEBlock(ch) for _ in range(depth)])
        self.head = nn.Linear(ch, 5)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


def main():
    torch.manual_seed(0)
    net = Classifier()
    sgd = torch.optim.SGD(net.parameters(), lr=0.05)
    sched = torch.optim.lr_scheduler.StepLR(sgd, 2)
    for epoch in range(3):
        x, y = torch.randn(8, 1, 12, 12), torch.randint(0, 5, (8,))
        loss = nn.functional.cross_entropy(net(x), y)
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        sched.step()
        print(epoch, loss.item())


main()
