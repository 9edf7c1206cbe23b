# code: BS204
# variable: rate
# cause: student.load_state_dict(moved)
# fix: functional_call(student, moved, (held_x,))
import copy

import torch
from torch import nn

model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))


def hyper_gradient(x, y, held_x, held_y):
    rate = torch.tensor(0.1, requires_grad=True)
    student = copy.deepcopy(model)
    inner = (student(x) - y).pow(2).mean()
    grads = torch.autograd.grad(inner, list(student.parameters()), create_graph=True)
    moved = {name: p - rate * g for (name, p), g in zip(student.named_parameters(), grads)}
    student.load_state_dict(moved)
    outer = (student(held_x) - held_y).pow(2).mean()
    return torch.autograd.grad(outer, rate)[0]


for _ in range(2):
    data = [torch.randn(8, 3), torch.randn(8, 1), torch.randn(8, 3), torch.randn(8, 1)]
    print(hyper_gradient(*data))
