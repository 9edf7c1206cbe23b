# code: BS200
# variable: student.head
# cause: engine = Engine(student, torch.optim.Adam(params, lr=1e-3))
# fix: remove line 26
# unsure: the state fits the parameters in two ways
"""A student starts from its teacher, with a head more, and the engine loads the teacher's optimizer as well."""

import torch
from torch import nn

torch.manual_seed(0)


class Engine:
    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer

    def step(self):
        loss = self.model(torch.randn(8, 4)).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

    def load(self, model, optimizer):
        self.model.net.load_state_dict(model)
        self.optimizer.load_state_dict(optimizer)


class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3))
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.net(x) + self.head(self.net[0](x))


def run():
    teacher = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 3))
    engine = Engine(teacher, torch.optim.Adam(teacher.parameters(), lr=1e-3))
    engine.step()
    saved = teacher.state_dict(), engine.optimizer.state_dict()
    student = Student()
    params = [p for p in student.parameters() if p.requires_grad]
    engine = Engine(student, torch.optim.Adam(params, lr=1e-3))
    engine.load(*saved)
    engine.step()


run()
