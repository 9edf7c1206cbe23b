# code: BS214
# variable: soft
# file: _teacher.py
# cause: @torch.inference_mode()
# fix: no_grad
import torch
from _teacher import Teacher
from torch import nn

student = nn.Linear(5, 3)
teacher = Teacher(nn.Linear(5, 3))
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
for x in torch.randn(2, 4, 5):
    soft = teacher.targets(x)
    loss = (torch.softmax(student(x), dim=-1) * soft).sum(1).neg().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
