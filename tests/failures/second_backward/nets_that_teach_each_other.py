# code: BS201
# variable: left
# cause: loss_a = functional.cross_entropy(left, y) + apart(left, right)
# fix: on line 26, write `loss_a = functional.cross_entropy(left, y) + apart(left, right.detach())` and on line 27, write `loss_b = functional.cross_entropy(right, y) + apart(right, left.detach())`
import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(0)
a = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3))
b = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 3))
optimizer_a = torch.optim.SGD(a.parameters(), lr=0.1)
optimizer_b = torch.optim.SGD(b.parameters(), lr=0.1)


def apart(student, teacher):
    wanted = functional.softmax(teacher, -1)
    return functional.kl_div(functional.log_softmax(student, -1), wanted, reduction="batchmean")


for step in range(3):
    x, y = torch.randn(8, 6), torch.randint(0, 3, (8,))
    optimizer_a.zero_grad()
    optimizer_b.zero_grad()
    left, right = a(x), b(x)
    loss_a = functional.cross_entropy(left, y) + apart(left, right)
    loss_b = functional.cross_entropy(right, y) + apart(right, left)
    loss_a.backward()
    optimizer_a.step()
    loss_b.backward()
    optimizer_b.step()
    print(step, loss_a.item(), loss_b.item())
