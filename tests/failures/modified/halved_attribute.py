# code: BS202
# variable: net.h
# cause: self.h.mul_(0.5)
# fix: self.h = self.h.mul(0.5)
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 4)

    def forward(self, x):
        self.h = torch.tanh(self.fc(x))
        out = self.h * 2
        self.h.mul_(0.5)
        return out.sum()


net = Net()
net(torch.randn(2, 4)).backward()
