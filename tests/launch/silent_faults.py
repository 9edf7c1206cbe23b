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
    "BS102 an encoder behind no_grad in a helper": """
encoder, head = net(4, 8), net(8, 1)
optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=0.01)

@torch.no_grad()  #!
def features(x):
    return encoder(x)

def objective(x, y):
    h = features(x)
    return F.mse_loss(head(h), y)

for step in range(40):
    loss = objective(*batch())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "BS102 an encoder whose result is wrapped anew": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.head = net(4, 8), net(8, 1)

    def encode(self, x):
        h = self.encoder(x)
        return torch.tensor(h.tolist())  #!

    def forward(self, x):
        return self.head(self.encode(x))

model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    x, y = batch()
    loss = F.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "BS102 a generator whose fake goes through .data": """
generator, critic = net(4, 4), net(4, 1)
optimizer = torch.optim.Adam([*generator.parameters(), *critic.parameters()], lr=0.01)

def score(fake):
    return critic(fake.data)  #!

for step in range(40):
    x, y = batch()
    loss = -score(generator(x)).mean() + critic(x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "BS102 a branch through NumPy": """
import numpy as np
branch, trunk, head = net(4, 8), net(4, 8), net(8, 1)
optimizer = torch.optim.Adam([*branch.parameters(), *trunk.parameters(), *head.parameters()], lr=0.01)

def gate(x):
    scores = branch(x).detach().numpy()  #!
    return torch.tensor(np.tanh(scores))

for step in range(40):
    x, y = batch()
    loss = F.mse_loss(head(trunk(x) * gate(x)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
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
    "BS117 a target without its last dimension": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    x, y = batch()
    y = y.squeeze(1)
    loss = ((model(x) - y) ** 2).mean()  #!
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "BS117 in a function of its own": """
class Regression(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = net()

    def forward(self, x):
        return self.net(x).squeeze(-1)

def rmse(prediction, target):
    error = prediction - target  #!
    return error.pow(2).mean().sqrt()

model = Regression()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    x, y = batch()
    loss = rmse(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "BS117 advantages that meet log-probabilities": """
policy, critic = net(4, 2), net(4, 1)
optimizer = torch.optim.Adam([*policy.parameters(), *critic.parameters()], lr=0.01)
for step in range(40):
    x, y = batch()
    dist = torch.distributions.Categorical(logits=policy(x))
    action = dist.sample()
    value = critic(x)
    advantage = y - value
    policy_loss = -(dist.log_prob(action) * advantage.detach()).mean()  #!
    loss = policy_loss + advantage.pow(2).mean()
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
    "BS121 a penalty of numbers": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    x, y = batch()
    out = model(x)
    smooth = (out[1:] - out[:-1]).detach().abs().mean()  #!
    loss = F.mse_loss(out, y) + 0.1 * smooth
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "BS121 an accuracy for a term": """
model = net(4, 3)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

def objective(logits, labels):
    wrong = (logits.argmax(1) != labels).float().mean()  #!
    return F.cross_entropy(logits, labels) + wrong

for step in range(40):
    x, y = batch()
    loss = objective(model(x), torch.randint(3, (16,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "BS122 softmax before cross_entropy": """
model = nn.Sequential(net(4, 3), nn.Softmax(dim=1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    x, _ = batch()
    loss = F.cross_entropy(model(x), torch.randint(3, (16,)))  #!
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "BS122 sigmoid before bce_with_logits": """
model = net()
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    x, y = batch()
    probability = torch.sigmoid(model(x))
    loss = criterion(probability, (y > 0).float())  #!
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "BS111 a running loss": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
running_loss = 0.0
for step in range(80):
    x, y = batch()
    loss = F.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    running_loss += loss  #!
""",
    "BS111 a list of losses": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
history = {"loss": []}
def train():
    for step in range(80):
        x, y = batch()
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history["loss"].append(loss)  #!
train()
""",
    "BS102 an encoder that is cut off late": """
encoder, head = net(4, 8), net(8, 1)
optimizer = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=0.01)

def hidden(x, step):
    h = encoder(x)
    return h.detach() if step >= 150 else h  #!

for step in range(320):
    x, y = batch()
    loss = F.mse_loss(head(hidden(x, step)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
}
