# code: BS200
# variable: self.fc1.weight
# cause: self.fc1.weight = weights[0]
# fix: del self.fc1.weight
import torch
import torch.nn as nn
import torch.nn.functional as F


class HyperNet(nn.Module):
    """Makes the weights of a small regression network from a task embedding."""

    def __init__(self, tasks, d_in, d_hidden, d_out):
        super().__init__()
        self.embed = nn.Embedding(tasks, 8)
        self.shapes = [(d_hidden, d_in), (d_hidden,), (d_out, d_hidden), (d_out,)]
        total = sum(torch.Size(s).numel() for s in self.shapes)
        self.gen = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, total))

    def forward(self, task):
        vec = self.gen(self.embed(task))
        out, at = [], 0
        for s in self.shapes:
            n = torch.Size(s).numel()
            out.append(vec[at : at + n].view(s))
            at += n
        return out


class Target(nn.Module):
    def __init__(self, d_in, d_hidden, d_out):
        super().__init__()
        self.fc1 = nn.Linear(d_in, d_hidden)
        self.fc2 = nn.Linear(d_hidden, d_out)

    def load(self, weights):
        self.fc1.weight = weights[0]
        self.fc1.bias = weights[1]
        self.fc2.weight = weights[2]
        self.fc2.bias = weights[3]

    def forward(self, x):
        return self.fc2(F.relu(self.fc1(x)))


def task_data(k, n=64):
    x = torch.randn(n, 3)
    return x, x.sum(1, keepdim=True) * (k + 1)


torch.manual_seed(0)
hyper = HyperNet(4, 3, 10, 1)
target = Target(3, 10, 1)
opt = torch.optim.Adam(hyper.parameters(), lr=1e-3)
for step in range(40):
    loss = 0.0
    for k in range(4):
        x, y = task_data(k)
        target.load(hyper(torch.tensor(k)))
        loss = loss + F.mse_loss(target(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
