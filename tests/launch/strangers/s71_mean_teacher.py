"""Mean teacher: few labels, consistency with an averaged copy of the network. The teacher is what ships."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.datasets import make_moons


class Net(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.head = nn.Linear(hidden, 2)

    def forward(self, x):
        return self.head(self.body(x))


@torch.no_grad()
def blend(averaged, current, decay):
    """averaged <- decay * averaged + (1 - decay) * current"""
    for a, c in zip(averaged.parameters(), current.parameters()):
        a.mul_(decay).add_(c, alpha=1 - decay)


class MeanTeacher:
    def __init__(self, decay=0.98, consistency=1.0, noise=0.08):
        self.student = Net()
        self.teacher = copy.deepcopy(self.student)
        for p in self.teacher.parameters():
            p.requires_grad_(False)
        self.decay, self.consistency, self.noise = decay, consistency, noise
        self.opt = torch.optim.SGD(self.student.parameters(), lr=0.1, momentum=0.9)

    def jitter(self, x):
        return x + self.noise * torch.randn_like(x)

    def loss(self, x_lab, y_lab, x_unl):
        supervised = F.cross_entropy(self.student(self.jitter(x_lab)), y_lab)
        x_all = torch.cat([x_lab, x_unl])
        with torch.no_grad():
            target = self.teacher(self.jitter(x_all)).softmax(-1)
        consistency = F.mse_loss(self.student(self.jitter(x_all)).softmax(-1), target)
        return supervised + self.consistency * consistency, supervised.item(), consistency.item()

    def step(self, x_lab, y_lab, x_unl):
        loss, sup, con = self.loss(x_lab, y_lab, x_unl)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        blend(self.student, self.teacher, self.decay)
        return sup, con


def accuracy(net, x, y):
    with torch.no_grad():
        return (net(x).argmax(1) == y).float().mean().item()


def main():
    torch.manual_seed(1)
    x, y = make_moons(1200, noise=0.12, random_state=0)
    x, y = torch.tensor(x, dtype=torch.float32), torch.tensor(y)
    x_lab, y_lab, x_unl = x[:40], y[:40], x[40:800]
    x_test, y_test = x[800:], y[800:]
    mt = MeanTeacher()
    for step in range(1, 1001):
        pick = torch.randint(0, len(x_unl), (64,))
        sup, con = mt.step(x_lab, y_lab, x_unl[pick])
        if step % 100 == 0:
            print(f"step {step:4d} supervised {sup:.4f} consistency {con:.5f} "
                  f"student {accuracy(mt.student, x_test, y_test):.3f} teacher {accuracy(mt.teacher, x_test, y_test):.3f}")


main()
