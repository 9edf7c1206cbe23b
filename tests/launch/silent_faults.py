"""Trainings that go wrong and raise nothing: `#!` marks the line at fault, the name says which code must be told.

Each is written as somebody does who made the mistake. What stands before the loop of all of them is `HEAD`.
"""

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


def net(inputs=4, outputs=1, width=16):
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, outputs))


def batch(n=16, inputs=4):
    x = torch.randn(n, inputs)
    return x, x.sum(1, keepdim=True).sin()


"""

FAULTS = {
    "BS115 the optimizer of a copy": """
import copy
model = net()
backup = copy.deepcopy(model)
optimizer = torch.optim.Adam(backup.parameters(), lr=0.01)  #!
for step in range(40):
    x, y = batch()
    loss = F.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "BS115 the model is made anew after its optimizer": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)  #!
model = net(width=32)
for step in range(40):
    x, y = batch()
    loss = F.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "BS115 zeroed between backward and step": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    x, y = batch()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.zero_grad()  #!
    optimizer.step()
""",
    "BS115 zeroed between backward and step, in place, in a class": """
class Trainer:
    def __init__(self):
        self.model = net()
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def step(self, x, y):
        loss = F.mse_loss(self.model(x), y)
        loss.backward()
        self.model.zero_grad(set_to_none=False)  #!
        self.opt.step()
        return loss.item()

trainer = Trainer()
for step in range(40):
    trainer.step(*batch())
""",
    "BS115 an actor whose loss is made of numbers": """
actor, critic = net(4, 2), net(4, 1)
actor_optimizer = torch.optim.Adam(actor.parameters(), lr=0.01)
critic_optimizer = torch.optim.Adam(critic.parameters(), lr=0.01)
for step in range(40):
    x, y = batch()
    value = critic(x)
    actions = actor(x).argmax(1)  #!
    critic_loss = F.mse_loss(value, y)
    actor_loss = -(value * actions[:, None]).mean()
    critic_optimizer.zero_grad()
    actor_optimizer.zero_grad()
    (critic_loss + actor_loss).backward()
    actor_optimizer.step()
    critic_optimizer.step()
""",
    "BS115 a closure of LBFGS without backward": """
model = net()
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)
x, y = batch()

def closure():  #!
    optimizer.zero_grad()
    return F.mse_loss(model(x), y)

for step in range(12):
    optimizer.step(closure)
""",
    "BS116 eval and never train again": """
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

def evaluate(model):
    model.eval()  #!
    with torch.no_grad():
        x, y = batch()
        return F.mse_loss(model(x), y).item()

model.train()
for epoch in range(4):
    for step in range(60):
        x, y = batch()
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    evaluate(model)
""",
    "BS116 eval once within the first epoch, batch norm": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm, self.b = nn.Linear(4, 16), nn.BatchNorm1d(16), nn.Linear(16, 1)

    def forward(self, x):
        return self.b(torch.relu(self.norm(self.a(x))))

net_ = Net()
optimizer = torch.optim.SGD(net_.parameters(), lr=0.01)
for step in range(220):
    x, y = batch()
    loss = F.mse_loss(net_(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 150 == 149:
        net_.eval()  #!
        with torch.no_grad():
            net_(x)
""",
    "BS116 evaluated before the training begins": """
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

@torch.no_grad()
def validate():
    model.eval()  #!
    return F.mse_loss(*map(lambda t: t, (model(batch()[0]), batch()[1]))).item()

validate()
for step in range(60):
    x, y = batch()
    loss = F.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "BS118 a rate that has decayed to nothing": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.8)
for epoch in range(5):
    for step in range(60):
        x, y = batch()
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()  #!
""",
    "BS118 a linear decay shorter than the training": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1 - step / 50))
for step in range(200):
    x, y = batch()
    loss = F.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()  #!
""",
    "BS119 an optimizer for each step": """
model = net()

def train_step(x, y):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)  #!
    loss = F.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

for step in range(40):
    train_step(*batch())
""",
}
