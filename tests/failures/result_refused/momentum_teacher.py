# code: BS219
# variable: student.features
# cause: teacher = copy.deepcopy(student)
# fix: student.features = student.features.detach()
import copy

import torch
from torch import nn


class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.head = nn.Linear(6, 12), nn.Linear(12, 3)
        self.features = torch.zeros(0)

    def forward(self, x):
        self.features = torch.relu(self.stem(x))
        return self.head(self.features)


student = Student()
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for step in range(4):
    loss = student(torch.randn(5, 6)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 2:
        teacher = copy.deepcopy(student)
