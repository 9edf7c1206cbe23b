"""Trainings that go wrong and raise nothing: `#!` marks the line at fault, the name says which code must be told.

Each is written as somebody does who made the mistake. What stands before the loop of all of them is `HEAD`, and a
line that begins with `$` is a piece of many (`silent_pieces.py`).
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
    "BS114 steps so large that all units die": """
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=3.0)
for step in range(40):
    x, y = batch()
    loss = F.mse_loss(model(x), y - 5)  #!
    $update
""",
    "BS108 the logarithm of probabilities that become 0 late": """
model = net(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(30):
    x, y = batch()
    sharpness = 1 if step < 8 else 400
    chances = F.softmax(model(x) * sharpness, dim=1)
    loss = F.nll_loss(chances.log(), (y[:, 0] > 0).long())  #!
    $update
""",
    "BS108 a division by a norm that becomes 0 late": """
model = net(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(30):
    x, y = batch()
    out = model(x)
    if step >= 8:
        out = out * (y > -9).float() * 0
    size = out.square().sum(1, keepdim=True)
    loss = F.mse_loss(out / size, x[:, :2])  #!
    $update
""",
    "BS127 a generator whose critic is given a sample without its graph, beside a reconstruction": """
generator, critic = net(4, 4), net(4, 1)
g_opt = torch.optim.Adam(generator.parameters(), lr=0.002)
c_opt = torch.optim.Adam(critic.parameters(), lr=0.002)
anchor, target = torch.randn(16, 4), torch.randn(16, 4)
for step in range(40):
    x, _ = batch()
    sample = generator(torch.randn(len(x), 4))
    c_opt.zero_grad()
    c_loss = critic(sample.detach()).mean() - critic(x).mean()
    c_loss.backward()
    c_opt.step()
    g_opt.zero_grad()
    score = critic(sample.detach())
    g_loss = -score.mean()
    g_loss.backward()  #!
    F.mse_loss(generator(anchor), target).backward()
    g_opt.step()
""",
    "BS127 an encoder that is to confuse a domain classifier, in a method": """
class Adaptation:
    def __init__(self):
        self.encoder, self.head, self.domain = net(4, 8), nn.Linear(8, 1), nn.Linear(8, 1)
        self.opt = torch.optim.Adam([*self.encoder.parameters(), *self.head.parameters()], lr=0.01)
        self.domain_opt = torch.optim.Adam(self.domain.parameters(), lr=0.01)

    def domain_step(self, x, of):
        self.domain_opt.zero_grad()
        F.binary_cross_entropy_with_logits(self.domain(self.encoder(x).detach()), of).backward()
        self.domain_opt.step()

    def task_step(self, x, y, of):
        self.opt.zero_grad()
        guess = self.domain(self.encoder(x).detach())
        confusion = -F.binary_cross_entropy_with_logits(guess, of)
        confusion.backward()  #!
        loss = F.mse_loss(self.head(self.encoder(x)), y)
        loss.backward()
        self.opt.step()

def main():
    training = Adaptation()
    for step in range(40):
        x, y = batch()
        of = (torch.rand(len(x), 1) > 0.5).float()
        x = x + 3 * of
        training.domain_step(x, of)
        training.task_step(x, y, of)

main()
""",
    "BS173 a critic whose target has its graph": """
critic = net(4, 1)
optimizer = torch.optim.Adam(critic.parameters(), lr=0.002)
GAMMA = 0.95
for step in range(40):
    x, after, reward = torch.randn(16, 4), torch.randn(16, 4), torch.randn(16)
    done = (torch.rand(16) < 0.1).float()
    value, next_value = critic(x).squeeze(-1), critic(after).squeeze(-1)
    target = reward + GAMMA * next_value * (1 - done)
    error = target - value  #!
    loss = error.pow(2).mean()
    $update
""",
    "BS173 a Q-network without a target network, whose target is not detached": """
class Agent:
    def __init__(self):
        self.q, self.gamma = net(4, 3), 0.99
        self.optimizer = torch.optim.Adam(self.q.parameters(), lr=0.001)

    def learn(self, states, actions, rewards, following, done):
        chosen = self.q(states).gather(1, actions[:, None]).squeeze(1)
        best = self.q(following).max(1)[0]
        best[done] = 0.0
        loss = F.smooth_l1_loss(chosen, rewards + self.gamma * best)  #!
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

agent = Agent()
for step in range(40):
    agent.learn(
        torch.randn(16, 4), torch.randint(3, (16,)), torch.randn(16), torch.randn(16, 4), torch.rand(16) < 0.1
    )
""",
    "BS173 returns that begin with the value of the last state": """
actor, critic = net(4, 2), net(4, 1)
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=0.002)
gamma = 0.9
for step in range(20):
    x, rewards = torch.randn(6, 4), torch.randn(5)
    values, policy = critic(x).squeeze(-1), torch.distributions.Categorical(logits=actor(x[:5]))
    action, R, returns = policy.sample(), values[5], []
    for r in reversed(rewards.unbind()):
        R = r + gamma * R
        returns.insert(0, R)
    advantage = torch.stack(returns) - values[:5]  #!
    loss = -(policy.log_prob(action) * advantage.detach()).mean() + advantage.pow(2).mean()
    $update
""",
    "BS101 a second network that starts as the first, and is in no optimizer": """
first, second = net(), net()
second.load_state_dict(first.state_dict())
optimizer = torch.optim.Adam(first.parameters(), lr=0.01)  #!
for step in range(60):
    x, y = batch()
    loss = F.mse_loss(first(x) + second(x.flip(1)), y)
    $update
""",
    "BS115 the optimizer of a copy": """
import copy
model = net()
backup = copy.deepcopy(model)
optimizer = torch.optim.Adam(backup.parameters(), lr=0.01)  #!
$loop 40
""",
    "BS115 the model is made anew after its optimizer": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)  #!
model = net(width=32)
$loop 40
""",
    "BS115 an optimizer of the first network, which another one trains, for the second": """
critic, actor, explorer = net(), net(), net()
critic_opt = torch.optim.Adam(critic.parameters(), lr=0.01)
actor_opt = torch.optim.Adam(actor.parameters(), lr=0.01)
explorer_opt = torch.optim.Adam(actor.parameters(), lr=0.01)  #!
for step in range(40):
    x, y = batch()
    critic_opt.zero_grad()
    F.mse_loss(critic(x), y).backward()
    critic_opt.step()
    explorer_opt.zero_grad()
    (-critic(x + explorer(x)).var()).backward()
    explorer_opt.step()
    actor_opt.zero_grad()
    (-critic(x + actor(x)).mean()).backward()
    actor_opt.step()
""",
    "BS115 zeroed between backward and step, on one line, beside another optimizer": """
model, other = net(), net()
optimizer, second = torch.optim.SGD(model.parameters(), lr=0.01), torch.optim.SGD(other.parameters(), lr=0.01)
for step in range(10):
    x, y = batch()
    second.zero_grad(); F.mse_loss(other(x), y).backward(); second.step()
    loss = F.mse_loss(model(x), y)
    loss.backward(); optimizer.zero_grad(); optimizer.step()  #!
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
    "BS115 zeroed by a callback": """
class Clean:
    def before_update(self, trainer):
        trainer.opt.zero_grad()  #!

class Trainer:
    def __init__(self, model, callbacks):
        self.model, self.callbacks = model, callbacks
        self.opt = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(self, x, y):
        loss = F.mse_loss(self.model(x), y)
        loss.backward()
        for each in self.callbacks:
            each.before_update(self)
        self.opt.step()

trainer = Trainer(net(), [Clean()])
for step in range(40):
    trainer.step(*batch())
""",
    "BS115 a head that is replaced, beside another optimizer of nearly that name": """
def warm_up(model):
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(4):
        x, y = batch()
        opt.zero_grad()
        F.mse_loss(model(x), y).backward()
        opt.step()

class Tuner:
    def __init__(self, model):
        self.model = model
        model[:2].requires_grad_(False)
        self.opt = torch.optim.Adam(model[2].parameters(), lr=0.01)  #!

    def step(self, x, y):
        loss = F.mse_loss(self.model(x), y)
        $update self.opt

model = net()
warm_up(model)
tuner = Tuner(model)
model[2] = nn.Linear(model[2].in_features, 1)
for step in range(40):
    tuner.step(*batch())
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
    $update
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
$loop 40
""",
    "BS102 a generator whose fake goes through .data": """
generator, critic = net(4, 4), net(4, 1)
optimizer = torch.optim.Adam([*generator.parameters(), *critic.parameters()], lr=0.01)

def score(fake):
    return critic(fake.data)  #!

for step in range(40):
    x, y = batch()
    loss = -score(generator(x)).mean() + critic(x).mean()
    $update
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
    $update
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
    $loop 60
    evaluate(model)
""",
    "BS116 a validation within the epoch, begun by a method that sets the mode": """
class Trainer:
    def __init__(self):
        self.body = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1))
        self.opt = torch.optim.Adam(self.body.parameters(), lr=0.01)

    def begin_training(self):
        self.body.train()

    def begin_validation(self):
        self.body.eval()  #!

    def fit(self, x, y):
        loss = F.mse_loss(self.body(x), y)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()


def score(trainer):
    trainer.begin_validation()
    x, y = batch(64)
    with torch.no_grad():
        error = (trainer.body(x) - y).abs()
    return error.mean().item()


trainer, best = Trainer(), 9.0
for epoch in range(3):
    trainer.begin_training()
    for step in range(30):
        trainer.fit(*batch())
        if step % 10 == 5:
            best = min(best, score(trainer))
""",
    "BS116 a function that sets the mode of what it is given, and nobody sets it back": """
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)


def switch_off(net):
    net.eval()  #!


def check(held_out):
    switch_off(model)
    with torch.no_grad():
        print(f"{F.mse_loss(model(held_out[0]), held_out[1]):.3f}")


for epoch in range(4):
    $loop 60
    check(batch())
""",
    "BS102 parts that get gradients of their own, which nobody hands on": """
trunk, head = nn.Sequential(nn.Linear(4, 16), nn.Tanh()), nn.Linear(16, 1)
opt = torch.optim.Adam([*trunk.parameters(), *head.parameters()], lr=0.01)

def in_parts(hidden, y, size=8):
    for first in range(0, len(hidden), size):
        rows = hidden[first:first + size].detach().requires_grad_()  #!
        loss = F.mse_loss(head(rows), y[first:first + size], reduction="sum") / len(y)
        loss.backward()

for step in range(40):
    x, y = batch(24)
    opt.zero_grad()
    in_parts(trunk(x), y)
    opt.step()
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
    $update
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
$loop 60
""",
    "BS117 a target without its last dimension": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    x, y = batch()
    y = y.squeeze(1)
    loss = ((model(x) - y) ** 2).mean()  #!
    $update
""",
    "BS117 a target that was broadcast where there are no gradients": """
critic, target_critic = net(), net()
optimizer = torch.optim.Adam(critic.parameters(), lr=0.01)
for step in range(40):
    x, _ = batch()
    reward = x.sum(1)
    with torch.no_grad():
        wanted = reward + 0.9 * target_critic(x)  #!
    loss = (critic(x) - wanted).pow(2).mean()
    $update
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
    $update
""",
    "BS117 a pinball loss of its own, called for several heads with one target": """
class Pinball(nn.Module):
    def one(self, pred, target, q):
        err = target - pred  #!
        return torch.maximum(q * err, (q - 1) * err).mean()

    def forward(self, preds, target):
        return sum(self.one(pred, target, q) for pred, q in zip(preds, (0.1, 0.5, 0.9)))

body, heads, criterion = net(4, 8), nn.ModuleList(nn.Linear(8, 1) for _ in range(3)), Pinball()
optimizer = torch.optim.Adam([*body.parameters(), *heads.parameters()], lr=0.01)
for step in range(20):
    x, y = batch()
    hidden = body(x)
    loss = criterion([head(hidden) for head in heads], y.squeeze(1))
    $update
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
    $update
""",
    "BS117 advantages that became a square without gradients": """
policy, critic = net(4, 2), net(4, 1)
optimizer = torch.optim.Adam([*policy.parameters(), *critic.parameters()], lr=0.01)
for step in range(40):
    x, y = batch()
    wanted = y.squeeze(1)
    dist = torch.distributions.Categorical(logits=policy(x))
    action = dist.sample()
    value = critic(x)
    advantage = wanted - value.detach()  #!
    policy_loss = -(dist.log_prob(action) * advantage).mean()
    loss = policy_loss + F.mse_loss(value.squeeze(1), wanted)
    $update
""",
    "BS117 normalized advantages of a clipped objective, that are a square": """
class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = net(4, 1)

    def forward(self, x):
        return self.body(x)

@torch.no_grad()
def advantages(critic, x, returns):
    found = returns - critic(x)  #!
    return (found - found.mean()) / (found.std() + 1e-8)

policy, critic = net(4, 2), Critic()
optimizer = torch.optim.Adam([*policy.parameters(), *critic.parameters()], lr=0.01)
for step in range(20):
    x, y = batch()
    returns = y[:, 0]
    with torch.no_grad():
        before = torch.distributions.Categorical(logits=policy(x))
        action = before.sample()
        old = before.log_prob(action)
    adv = advantages(critic, x, returns)
    for _ in range(3):
        ratio = (torch.distributions.Categorical(logits=policy(x)).log_prob(action) - old).exp()
        clipped = ratio.clamp(0.8, 1.2)
        loss = -torch.min(ratio * adv, clipped * adv).mean() + F.mse_loss(critic(x).squeeze(1), returns)
        $update
""",
    "BS146 a copy of weights that binds the variable of the loop alone": """
class Average:
    def __init__(self, model, average):
        self.model, self.average = model, average
        for own, other in zip(average.parameters(), model.parameters()):
            own = other.data.clone()  #!

    @torch.no_grad()
    def step(self):
        for own, other in zip(self.average.parameters(), self.model.parameters()):
            own.lerp_(other, 0.1)

model, slow = net(), net()
follow = Average(model, slow)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    $step
    follow.step()
""",
    "BS146 a network that should begin as another one": """
def begin_as(student, teacher):
    for (name, p), q in zip(student.named_parameters(), teacher.parameters()):
        print(name, tuple(p.shape))
        p = 0.5 * q  #!

teacher, model = net(), net()
begin_as(model, teacher)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    x, _ = batch()
    with torch.no_grad():
        y = teacher(x)
    loss = F.mse_loss(model(x), y)
    $update
""",
    "BS136 the weights of a mixture over the steps": """
class Mixture(nn.Module):
    def __init__(self, k=5):
        super().__init__()
        self.k, self.out = k, net(4, 3 * k)

    def forward(self, x):
        mean, scale, weight = self.out(x).chunk(3, -1)
        return torch.distributions.Normal(mean, F.softplus(scale) + 0.1), torch.log_softmax(weight, 1)  #!

model = Mixture()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    x = torch.randn(8, 6, 4)
    parts, weights = model(x)
    loss = -torch.logsumexp(weights + parts.log_prob(x.sum(2, keepdim=True)), 2).mean()
    $update
""",
    "BS136 the shares of components over the samples of a batch": """
model = net(4, 15)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    x, y = batch()
    mean, scale, weight = model(x).chunk(3, 1)
    share = F.softmax(weight, dim=0)  #!
    density = torch.distributions.Normal(mean, scale.exp()).log_prob(y).exp()
    loss = -torch.log((share * density).sum(1) + 1e-6).mean()
    $update
""",
    "BS144 a target that is the network itself, and a copy of it into itself": """
class Agent:
    def __init__(self, model):
        self.policy = model.to("cpu")
        self.target = model.to("cpu")  #!
        self.target.load_state_dict(self.policy.state_dict())
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=0.001)

    def learn(self, x, after, reward):
        with torch.no_grad():
            goal = reward + 0.9 * self.target(after).max(1)[0]
        loss = F.mse_loss(self.policy(x).max(1)[0], goal)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

agent = Agent(net(4, 3))
for step in range(120):
    agent.learn(torch.randn(16, 4), torch.randn(16, 4), torch.randn(16))
    if step % 50 == 49:
        agent.target.load_state_dict(agent.policy.state_dict())
""",
    "BS118 a rate that has decayed to nothing": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.8)
for epoch in range(5):
    $loop 60
        scheduler.step()  #!
""",
    "BS118 a linear decay shorter than the training": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1 - step / 50))
$loop 200
    schedule.step()  #!
""",
    "BS119 an optimizer for each step": """
model = net()

def train_step(x, y):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)  #!
    loss = F.mse_loss(model(x), y)
    $update

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
    $update
""",
    "BS121 a penalty that NumPy computes, down to a number of its own": """
import numpy as np
model = net(4, 8)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

def roughness(curve):
    bend = np.gradient(np.gradient(curve.cpu().detach().numpy(), axis=1), axis=1)  #!
    return torch.as_tensor((bend ** 2).mean(), device=curve.device, dtype=curve.dtype)

for step in range(40):
    x, y = batch()
    out = model(x)
    loss = (out - y).pow(2).mean() + 10.0 * roughness(out)
    $update
""",
    "BS168 noise that is seeded wherever it is drawn": """
model = net(5, 4)
optimizer = torch.optim.Adam(model.parameters(), lr=0.002)
data = torch.Generator().manual_seed(3)

class Schedule:
    def __init__(self, seed):
        self.seed = seed

    def blur(self, x):
        torch.manual_seed(self.seed)  #!
        t = torch.rand(len(x), 1)
        eps = torch.randn_like(x)
        return torch.cat([(1 - t) * x + t * eps, t], 1), eps

schedule = Schedule(7)
for step in range(60):
    noisy, eps = schedule.blur(torch.randn(16, 4, generator=data))
    loss = F.mse_loss(model(noisy), eps)
    $update
""",
    "BS168 everything is seeded at the head of each step of two networks": """
import random
judge, maker = net(4), net(3, 4)
of_judge = torch.optim.Adam(judge.parameters(), lr=0.002)
of_maker = torch.optim.Adam(maker.parameters(), lr=0.002)
data = torch.Generator().manual_seed(3)

def seed_all(seed):
    random.seed(seed)
    torch.manual_seed(seed)

def train():
    for step in range(60):
        seed_all(11)  #!
        real = torch.randn(16, 4, generator=data)
        fake = maker(torch.randn(16, 3))
        loss = F.softplus(-judge(real)).mean() + F.softplus(judge(fake.detach())).mean()
        $update of_judge
        loss = F.softplus(-judge(maker(torch.randn(16, 3)))).mean()
        $update of_maker

train()
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
    $update
""",
    "BS122 softmax before cross_entropy": """
model = nn.Sequential(net(4, 3), nn.Softmax(dim=1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    x, _ = batch()
    loss = F.cross_entropy(model(x), torch.randint(3, (16,)))  #!
    $update
""",
    "BS121 the teacher's logits in place of the student's": """
student, teacher = net(outputs=3), net(outputs=3).requires_grad_(False)


def distilled(logits, teacher_logits, y, alpha=0.7):
    target = F.softmax(teacher_logits / 2, dim=1)
    soft = -(target * F.log_softmax(teacher_logits / 2, dim=1)).sum(1).mean() * 4
    hard = F.cross_entropy(logits, y)
    return alpha * soft + (1 - alpha) * hard  #!


optimizer = torch.optim.Adam(student.parameters(), lr=0.01)
for step in range(40):
    x, y = torch.randn(16, 4), torch.randint(3, (16,))
    loss = distilled(student(x), teacher(x), y)
    $update
""",
    "BS130 a ReLU after the last layer": """
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1), nn.ReLU())
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    x, y = batch()
    loss = F.mse_loss(model(x), y)  #!
    $update
""",
    "BS130 a sigmoid for targets that are standardised": """
class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = net()

    def forward(self, x):
        return torch.sigmoid(self.body(x)).squeeze(1)  #!


model = Regressor()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    x, _ = batch()
    y = x.sum(1)
    loss = (model(x) - y).pow(2).mean()
    $update
""",
    "BS131 raw inputs in a tanh": """
model = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    x, y = batch()
    loss = F.mse_loss(model(1013 + 20 * x), y)  #!
    $update
""",
    "BS131 weights that begin large": """
model = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
for each in model:
    if isinstance(each, nn.Linear):
        nn.init.normal_(each.weight, std=1.5)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    x, y = batch(64)
    loss = F.mse_loss(model(4 * x), y)  #!
    $update
""",
    "BS132 the advantage has its graph": """
actor, critic = net(4, 2), net(4, 1)
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=0.01)
for step in range(40):
    x, returns = batch()
    policy = torch.distributions.Categorical(logits=actor(x))
    action = policy.sample()
    advantage = returns.squeeze(1) - critic(x).squeeze(1)
    policy_loss = -(policy.log_prob(action) * advantage).mean()  #!
    loss = policy_loss + 0.5 * advantage.pow(2).mean()
    $update
""",
    "BS133 an adapter that is frozen by its name": """
class Adapted(nn.Module):
    def __init__(self):
        super().__init__()
        self.base, self.down, self.up = nn.Linear(4, 4), nn.Linear(4, 2, bias=False), nn.Linear(2, 4, bias=False)
        self.head = nn.Linear(4, 1)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.head(torch.relu(self.base(x) + self.up(self.down(x))))


model = Adapted()
for name, parameter in model.named_parameters():
    parameter.requires_grad = "lora" in name or "head" in name  #!
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01)
$loop 40
""",
    "BS101 copies of a parameter in place of parameters": """
class Rescale(nn.Module):
    def __init__(self):
        super().__init__()
        zeros = nn.Parameter(torch.zeros(4))
        self.shift = zeros.clone()  #!
        self.log_scale = zeros.clone()

    def forward(self, x):
        return (x - self.shift) * torch.exp(-self.log_scale)


model = nn.Sequential(Rescale(), nn.Linear(4, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 120
""",
    "BS102 a mean over neighbours by NumPy, in each layer": """
import numpy as np


class Mean:
    def __init__(self, n):
        self.neighbours = np.arange(n)[::-1].copy()

    def __call__(self, messages):
        values = messages.detach().numpy()[self.neighbours]  #!
        return torch.from_numpy(values / np.float32(2))


class Layer(nn.Module):
    def __init__(self, inputs, outputs, mean):
        super().__init__()
        self.message, self.update, self.mean = nn.Linear(inputs, outputs), nn.Linear(outputs, outputs), mean

    def forward(self, x):
        return self.update(self.mean(self.message(x)))


mean = Mean(16)
model = nn.Sequential(Layer(4, 8, mean), nn.ReLU(), Layer(8, 1, mean))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 40
""",
    "BS108 the distance of two that are one, late": """
def distance(a, b):
    return (a - b).square().sum(-1).sqrt()  #!


model = net(outputs=3)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(60):
    a, b = torch.randn(16, 4), torch.randn(16, 4)
    if step >= 40:
        b[0] = a[0]
    loss = distance(model(a), model(b)).mean()
    $update
""",
    "BS135 the decay of the rate as weight decay": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), 0.05, 0.9, weight_decay=0.9)  #!
$loop 40
""",
    "BS118 a cosine over the epochs that is stepped after each batch": """
def train(model, epochs=12):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    for epoch in range(1, epochs + 1):
        for _ in range(8):
            $step
            schedule.step()  #!

train(net())
""",
    "BS118 a callback that steps the schedule of each epoch after each batch": """
class Decay:
    def __init__(self, optimizer):
        self.scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

    def after_batch(self):
        self.scheduler.step()  #!


class Trainer:
    def __init__(self, model, callbacks, optimizer):
        self.model, self.callbacks, self.optimizer = model, callbacks, optimizer

    def fit(self, steps):
        for step in range(steps):
            x, y = batch()
            loss = F.mse_loss(self.model(x), y)
            $update self.optimizer
            for each in self.callbacks:
                each.after_batch()


def main():
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    decay = Decay(optimizer)
    schedule = decay.scheduler
    Trainer(model, [decay], optimizer).fit(60)


main()
""",
    "BS134 a word that stands in another name, too": """
class Estimator(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.frequency_head, self.level_head = net(4, 8), nn.Linear(8, 1), nn.Linear(8, 1)

    def forward(self, x):
        h = self.encoder(x)
        return self.frequency_head(h) + self.level_head(h)


def freeze(model, pattern):
    for name, parameter in model.named_parameters():
        if pattern in name:
            parameter.requires_grad = False


def fit(model, steps):
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01)
    $loop steps


model = Estimator()
fit(model, 40)
freeze(model, "enc")  #!
fit(model, 40)
""",
    "BS122 probabilities given to kl_div": """
student, teacher = net(outputs=3), net(outputs=3)
optimizer = torch.optim.Adam(student.parameters(), lr=0.01)
divergence = nn.KLDivLoss(reduction="batchmean")
for step in range(40):
    x, _ = batch()
    with torch.no_grad():
        target = F.softmax(teacher(x), dim=1)
    loss = divergence(student(x).softmax(dim=1), target)  #!
    $update
""",
    "BS122 the outputs of a layer given to nll_loss": """
model = net(outputs=3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(40):
    x, y = torch.randn(16, 4), torch.randint(3, (16,))
    loss = F.nll_loss(model(x), y)  #!
    $update
""",
    "BS122 probabilities of each position given to nll_loss": """
model = nn.Sequential(nn.Linear(4, 3), nn.Softmax(dim=-1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(40):
    x, y = torch.randn(8, 5, 4), torch.randint(3, (8, 5))
    probabilities = model(x)
    loss = F.nll_loss(probabilities.reshape(-1, 3), y.reshape(-1))  #!
    $update
""",
    "BS124 clipped after the step, if there is a limit": """
class Trainer:
    def __init__(self, model, limit=None):
        self.model, self.limit = model, limit
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def fit(self, steps):
        for step in range(steps):
            x, y = batch()
            loss = F.mse_loss(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            if self.limit is not None:
                nn.utils.clip_grad_norm_(self.model.parameters(), self.limit)  #!

Trainer(net(), 0.1).fit(20)
""",
    "BS122 a module that runs sigmoid, before bce_with_logits": """
class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers, self.squash = net(), nn.Sigmoid()

    def forward(self, x):
        score = self.layers(x)
        score = self.squash(score).squeeze(1)
        return score

model = Scorer()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    x, y = batch()
    loss = F.binary_cross_entropy_with_logits(model(x), (y > 0).float().squeeze(1))  #!
    $update
""",
    "BS122 a softmax that ends a Sequential": """
model = nn.Sequential(
    nn.Linear(4, 16),
    nn.ReLU(),
    nn.Linear(16, 3),
    nn.Softmax(dim=1),
)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    x, _ = batch()
    loss = F.cross_entropy(model(x), x[:, :3].argmax(1))  #!
    $update
""",
    "BS122 a sigmoid that ends the head": """
class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = net(4, 8)
        self.head = nn.Sequential(nn.ReLU(), nn.Linear(8, 1), nn.Sigmoid())

    def forward(self, x):
        return self.head(self.body(x)).squeeze(1)

model = Scorer()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    x, y = batch()
    loss = F.binary_cross_entropy_with_logits(model(x), (y > 0).float().squeeze(1))  #!
    $update
""",
    "BS122 sigmoid before bce_with_logits": """
model = net()
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    x, y = batch()
    probability = torch.sigmoid(model(x))
    loss = criterion(probability, (y > 0).float())  #!
    $update
""",
    "BS111 a running loss": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
running_loss = 0.0
$loop 80
    running_loss += loss  #!
""",
    "BS111 a running loss whose mean is a tensor": """
class Meter:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value):
        self.total += value  #!
        self.count += 1

    def mean(self):
        return (self.total / self.count).item()

model, meter = net(), Meter()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(80):
    $step
    meter.update(loss)
print(meter.mean())
""",
    "BS111 a list of losses": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
history = {"loss": []}
def train():
    $loop 80
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
    $update
""",
    "BS121 a derivative without a graph": """
model = net(1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

def residual(x):
    u = model(x)
    du, = torch.autograd.grad(u.sum(), x)  #!
    return (du + u.detach()).square().mean()

for step in range(40):
    x = torch.rand(16, 1, requires_grad=True)
    loss = residual(x) + model(torch.zeros(1, 1)).square().mean()
    $update
""",
    "BS121 a residual with an unknown constant, both of whose sides are cut off": """
model, stiffness = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1)), nn.Parameter(torch.tensor(0.3))
optimizer = torch.optim.Adam([*model.parameters(), stiffness], lr=1e-3)

def derivative(u, t):
    return torch.autograd.grad(u.sum(), t)[0]  #!

def residual(t):
    t = t.clone().requires_grad_()
    u = model(t)
    du = torch.autograd.grad(u.sum(), t, create_graph=True)[0]
    return (derivative(du, t) + stiffness * u.detach()).square().mean()

t = torch.linspace(0, 3, 16)[:, None]
for step in range(20):
    loss = residual(t) + model(torch.zeros(1, 1)).square().mean()
    $update
""",
    "BS121 a rate that is fitted to a slope, both without a graph": """
model, rate = net(1, 1), nn.Parameter(torch.tensor(0.1))
optimizer = torch.optim.Adam([*model.parameters(), rate], lr=1e-3)
for step in range(20):
    t = torch.rand(16, 1, requires_grad=True)
    u = model(t)
    (slope,) = torch.autograd.grad(u.sum(), t, retain_graph=True)  #!
    equation = F.mse_loss(rate * u.data, slope)
    loss = F.mse_loss(u, t.detach().exp()) + equation
    $update
""",
    "BS121 a field that is compared with a learned one, the field as a constant": """
potential, field = net(2, 1), net(2, 2)
optimizer = torch.optim.Adam([*potential.parameters(), *field.parameters()], lr=1e-3)
for step in range(20):
    x = torch.randn(16, 2, requires_grad=True)
    energy = potential(x)
    force = -torch.autograd.grad(energy.sum(), x, retain_graph=True)[0]  #!
    y = x.detach()
    loss = (force - field(y)).square().mean() + (energy - y.square().sum(1, keepdim=True)).abs().mean()
    $update
""",
    "BS121 a second derivative, of which only the coordinates are left": """
model = net(1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    x = torch.rand(16, 1, requires_grad=True)
    u = model(x)
    du, = torch.autograd.grad(u.sum(), x, create_graph=True)
    ddu, = torch.autograd.grad(du.sum(), x, retain_graph=True)  #!
    inside = (ddu + x.sin()).square().mean()
    loss = inside + 2 * model(torch.zeros(1, 1)).square().mean()
    $update
""",
    "BS123 a critic that keeps the gradients of the generator's loss": """
generator, critic = net(4, 4), net(4, 1)
g_opt, d_opt = torch.optim.Adam(generator.parameters(), lr=0.01), torch.optim.Adam(critic.parameters(), lr=0.01)
for step in range(60):
    x, _ = batch()
    fake = generator(torch.randn(16, 4))
    g_opt.zero_grad()
    F.softplus(-critic(fake)).mean().backward()
    g_opt.step()
    d_loss = F.softplus(critic(fake.detach())).mean() + F.softplus(-critic(x)).mean()
    d_loss.backward()  #!
    d_opt.step()
    d_opt.zero_grad()
""",
    "BS123 an attack before the step": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def attack(x, y, size=0.1):
    delta = torch.zeros_like(x, requires_grad=True)
    F.mse_loss(model(x + delta), y).backward()
    return x + size * delta.grad.sign()

for step in range(60):
    x, y = batch()
    optimizer.zero_grad()
    loss = F.mse_loss(model(attack(x, y)), y)
    loss.backward()  #!
    optimizer.step()
""",
    "BS124 clipped after the step": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def train_step(x, y):
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)  #!
    return loss.item(), norm.item()

for step in range(40):
    train_step(*batch())
""",
    "BS124 clipped before the gradients are unscaled": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for step in range(40):
    x, y = batch()
    loss = F.mse_loss(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  #!
    scaler.step(optimizer)
    scaler.update()
""",
    "BS125 accumulated and not divided": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
every = 4
for step in range(80):
    x, y = batch()
    loss = F.mse_loss(model(x), y)
    loss.backward()  #!
    if (step + 1) % every == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
    "BS125 a distillation at a temperature, accumulated and not divided": """
teacher, student, T, accumulate = net(4, 3).requires_grad_(False), net(4, 3), 2.0, 8
optimizer = torch.optim.SGD(student.parameters(), lr=0.05)
for step in range(80):
    x, _ = batch()
    wanted = F.softmax(teacher(x) / T, -1)
    loss = F.kl_div(F.log_softmax(student(x) / T, -1), wanted, reduction="batchmean") * T**2
    loss.backward()  #!
    if (step + 1) % accumulate == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
    "BS125 micro batches in a loop of their own": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
for step in range(40):
    optimizer.zero_grad()
    total = 0.0
    for _ in range(4):
        x, y = batch()
        loss = F.mse_loss(model(x), y)
        loss.backward()  #!
        total += loss.item() / 4
    optimizer.step()
""",
    "BS103 BS124 clipped after the step, and never zeroed": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
for step in range(40):
    x, y = batch()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)  #!
""",
    "BS126 an attribute in place of a call": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone, self.head = net(4, 8), nn.Linear(8, 1)

    def forward(self, x):
        return self.head(self.backbone(x))

model = Net()
model.backbone.requires_grad_(False)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(80):
    if step == 20:
        model.backbone.requires_grad = True  #!
    $step
""",
    "BS127 two optimizers that are zeroed for each batch and step every few": """
encoder, head = net(4, 8), net(8, 1)
e_opt = torch.optim.Adam(encoder.parameters(), lr=0.01)
h_opt = torch.optim.Adam(head.parameters(), lr=0.01)
every = 4
for i in range(64):
    x, y = batch()
    e_opt.zero_grad()  #!
    h_opt.zero_grad()
    loss = F.mse_loss(head(encoder(x)), y) / every
    loss.backward()
    if (i + 1) % every == 0:
        h_opt.step()
        e_opt.step()
""",
    "BS127 zeroed for each batch, and a flag says when to step": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
EVERY = 3
for i in range(60):
    x, y = batch()
    optimizer.zero_grad()  #!
    is_full = i % EVERY == EVERY - 1
    loss = F.mse_loss(model(x), y) / EVERY
    loss.backward()
    if is_full:
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
""",
    "BS127 zeroed for each batch": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
ACCUMULATE = 4

def epoch(batches):
    for i, (x, y) in enumerate(batches):
        optimizer.zero_grad()  #!
        loss = F.mse_loss(model(x), y) / ACCUMULATE
        loss.backward()
        if (i + 1) % ACCUMULATE == 0:
            optimizer.step()

for _ in range(4):
    epoch([batch() for _ in range(16)])
""",
    "BS123 a generator that keeps the gradients of its critic's loss": """
generator, critic = net(4, 4), net(4, 1)
g_opt, d_opt = torch.optim.Adam(generator.parameters(), lr=0.01), torch.optim.Adam(critic.parameters(), lr=0.01)
for step in range(60):
    x, _ = batch()
    g_opt.zero_grad()
    d_opt.zero_grad()
    (critic(generator(torch.randn(16, 4))).mean() - critic(x).mean()).backward()
    d_opt.step()
    g_loss = -critic(generator(torch.randn(16, 4))).mean()
    g_loss.backward()  #!
    g_opt.step()
""",
    "BS115 fast weights that are leaves of their own": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

def forward(x, weights):
    return F.linear(F.relu(F.linear(x, weights[0], weights[1])), weights[2], weights[3])

for step in range(40):
    x, y = batch()
    fast = [p.detach().clone().requires_grad_() for p in model.parameters()]  #!
    gradients = torch.autograd.grad(F.mse_loss(forward(x, fast), y), fast, create_graph=True)
    fast = [w - 0.1 * g for w, g in zip(fast, gradients)]
    optimizer.zero_grad()
    F.mse_loss(forward(x, fast), y).backward()
    optimizer.step()
""",
    "BS111 a probe beside the training": """
model, frames = net(), []
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
probe = torch.randn(8, 4)
$loop 140
    if step % 2 == 0:
        seen = model[0](probe)
        frames.append(seen)  #!
""",
    "BS101 a head that is replaced late": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 1)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))

    def grow(self):
        self.head = nn.Linear(8, 1)  #!

model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(80):
    if step == 50:
        model.grow()
    $step
""",
    "BS128 the schedule of an optimizer that was replaced": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=5)
for epoch in range(16):
    if epoch == 6:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)  #!
    for _ in range(5):
        $step
    schedule.step()
""",
    "BS129 a critic that is frozen for its actor and stays so": """
actor, critic = net(4, 2), net(6, 1)
a_opt, c_opt = torch.optim.Adam(actor.parameters(), lr=0.01), torch.optim.Adam(critic.parameters(), lr=0.01)

def train_critic(x, y):
    loss = F.mse_loss(critic(torch.cat([x, actor(x).detach()], 1)), y)
    if loss.requires_grad:
        c_opt.zero_grad()
        loss.backward()
    c_opt.step()

def train_actor(x):
    for p in critic.parameters():
        p.requires_grad = False  #!
    a_opt.zero_grad()
    (-critic(torch.cat([x, actor(x)], 1)).mean()).backward()
    a_opt.step()

for step in range(100):
    x, y = batch()
    train_critic(x, y)
    if step > 20:
        train_actor(x)
""",
    "BS136 attention over the batch in a weighted sum": """
class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.score, self.out = nn.Linear(4, 1), nn.Linear(4, 3)

    def forward(self, h):
        scores = self.score(torch.tanh(h)).squeeze(-1)
        alpha = F.softmax(scores, dim=0)  #!
        return self.out((alpha.unsqueeze(-1) * h).sum(dim=1))

model = Pool()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    h, target = torch.randn(16, 6, 4), torch.randint(3, (16,))
    loss = F.cross_entropy(model(h), target)
    $update
""",
    "BS136 attention over the batch in a bmm": """
class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.score, self.out = nn.Linear(4, 1), nn.Linear(4, 1)

    def forward(self, h):
        weights = torch.softmax(self.score(h), 0)  #!
        return self.out(torch.bmm(weights.transpose(1, 2), h).squeeze(1))

model = Pool()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    h, target = torch.randn(16, 6, 4), torch.randn(16, 1)
    loss = F.mse_loss(model(h), target)
    $update
""",
    "BS136 log-probabilities over the batch": """
model = net(4, 3)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    x, target = torch.randn(16, 4), torch.randint(3, (16,))
    loss = F.nll_loss(F.log_softmax(model(x), dim=0), target)  #!
    $update
""",
    "BS136 softmax of one logit": """
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1), nn.Softmax(dim=1))
other = net()
optimizer = torch.optim.Adam([*model.parameters(), *other.parameters()], lr=0.01)
for step in range(40):
    x, y = batch()
    loss = F.mse_loss(model(x) * other(x), y)  #!
    $update
""",
    "BS137 batches of a generator, in every epoch": """
def batches(n):
    for _ in range(n):
        yield batch()

def main():
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    loader = batches(20)  #!
    for epoch in range(5):
        for x, y in loader:
            loss = F.mse_loss(model(x), y)
            $update

main()
""",
    "BS137 a zip that a trainer keeps": """
class Trainer:
    def __init__(self, xs, ys):
        self.model = net()
        self.opt = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.pairs = zip(xs, ys)  #!

    def step(self, x, y):
        loss = F.mse_loss(self.model(x), y)
        $update self.opt

    def epoch(self):
        for i, (x, y) in enumerate(self.pairs):
            self.step(x, y)

    def fit(self, epochs):
        for _ in range(epochs):
            self.epoch()

x, y = batch(640)
Trainer(x.split(16), y.split(16)).fit(4)
""",
    "BS137 a map that is handed to the function of an epoch": """
def train(model, optimizer, data):
    for x in data:
        loss = F.mse_loss(model(x), x.sum(1, keepdim=True))
        $update

model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
scaled = map(lambda x: x / 2, torch.randn(320, 4).split(16))  #!
for epoch in range(3):
    train(model, optimizer, scaled)
    print(epoch)
""",
    "BS132 an advantage of values that were gathered": """
class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor, self.critic = net(4, 3), net(4, 1)

    def forward(self, x):
        return torch.distributions.Categorical(logits=self.actor(x)), self.critic(x).squeeze(-1)

model = ActorCritic()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    log_probs, values = [], []
    for _ in range(5):
        policy, value = model(torch.randn(4))
        log_probs.append(policy.log_prob(policy.sample()))
        values.append(value)
    values, returns = torch.stack(values), torch.randn(5)
    loss = -(torch.stack(log_probs) * (returns - values)).sum() + F.mse_loss(values, returns)  #!
    $update
""",
    "BS132 differences of single steps, put together": """
actor, critic = net(4, 2), net(4, 1)
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=0.01)
for step in range(20):
    log_probs, deltas = [], []
    for _ in range(5):
        x, after = torch.randn(1, 4), torch.randn(1, 4)
        policy = torch.distributions.Normal(actor(x)[:, :1], 1.0)
        log_probs.append(policy.log_prob(policy.sample()).squeeze(1))
        deltas.append((torch.randn(1, 1) + 0.9 * critic(after).detach() - critic(x)).squeeze(1))
    advantages = torch.cat(deltas)
    policy_loss = (-torch.cat(log_probs) * advantages).mean()  #!
    loss = policy_loss + advantages.square().mean()
    $update
""",
    "BS132 the probability of a route, step by step": """
actor, critic = net(4, 3), net(4, 1)
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=0.01)
for step in range(20):
    x, log_prob = torch.randn(8, 4), 0.0
    start = x
    for _ in range(16):
        policy = torch.distributions.Categorical(logits=actor(x))
        chosen = policy.sample()
        log_prob = log_prob + policy.log_prob(chosen)
        x = x + 0.1 * chosen.unsqueeze(1)
    cost, expected = x.norm(dim=1), critic(start).squeeze(1)
    loss = ((cost - expected) * log_prob).mean() + F.mse_loss(expected, cost)  #!
    $update
""",
    "BS138 a counter that begins anew before the target is due": """
import copy

class Agent:
    def __init__(self):
        self.q = net(4, 2)
        self.q_target = copy.deepcopy(self.q).requires_grad_(False)
        self.opt = torch.optim.Adam(self.q.parameters(), lr=0.01)
        self.steps = 0

    def begin(self):
        self.steps = 0

    def learn(self):
        self.steps += 1
        x, after = torch.randn(16, 4), torch.randn(16, 4)
        with torch.no_grad():
            goal = x.sum(1) + 0.9 * self.q_target(after).max(1).values
        loss = F.smooth_l1_loss(self.q(x).max(1).values, goal)
        $update self.opt
        if self.steps % 50 == 0:
            self.q_target.load_state_dict(self.q.state_dict())  #!

agent = Agent()
for episode in range(20):
    agent.begin()
    for _ in range(10):
        agent.learn()
""",
    "BS138 an average whose update binds a name": """
import copy

def update(slow, fast, tau=0.01):
    for s, f in zip(slow.parameters(), fast.parameters()):
        s = (1 - tau) * s + tau * f  #!

student = net()
teacher = copy.deepcopy(student).requires_grad_(False)
optimizer = torch.optim.SGD(student.parameters(), lr=0.01)
for step in range(200):
    x, y = batch()
    loss = F.mse_loss(student(x), y) + F.mse_loss(student(x), teacher(x))
    $update
    update(teacher, student)
""",
    "BS138 an average whose arguments are exchanged": """
import copy

@torch.no_grad()
def blend(averaged, current, decay=0.99):
    for a, c in zip(averaged.parameters(), current.parameters()):
        a.mul_(decay).add_(c, alpha=1 - decay)

class MeanTeacher:
    def __init__(self):
        self.student = net()
        self.teacher = copy.deepcopy(self.student)
        self.opt = torch.optim.SGD(self.student.parameters(), lr=0.01)

    def step(self, x, y):
        with torch.no_grad():
            target = self.teacher(x)
        loss = F.mse_loss(self.student(x), y) + F.mse_loss(self.student(x), target)
        $update self.opt
        blend(self.student, self.teacher)  #!

mean = MeanTeacher()
for step in range(200):
    mean.step(*batch())
""",
    "BS138 a target whose update is never called": """
import copy

class Critic:
    def __init__(self):
        self.online = net(4, 1)
        self.target = copy.deepcopy(self.online)

    def soft_update(self, tau=0.005):
        for t, p in zip(self.target.parameters(), self.online.parameters()):
            t.data.copy_(tau * p.data + (1 - tau) * t.data)  #!

critic = Critic()
optimizer = torch.optim.Adam(critic.online.parameters(), lr=0.01)
for step in range(200):
    x, y = batch()
    with torch.no_grad():
        goal = y + 0.9 * critic.target(x)
    loss = F.mse_loss(critic.online(x), goal)
    $update
""",
    "BS139 all normalizations of a model that a shared function has trained before": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        for name, inputs in zip("abcd", (4, 16, 16, 16)):
            setattr(self, name, nn.Sequential(nn.Linear(inputs, 16), nn.BatchNorm1d(16), nn.Tanh()))
        self.head = nn.Linear(16, 1)

    def forward(self, x):
        return self.head(self.d(self.c(self.b(self.a(x)))))

def train(net, scale, steps=40):
    optimizer = torch.optim.SGD([p for p in net.parameters() if p.requires_grad], lr=0.01)
    net.train()  #!
    for step in range(steps):
        x, y = batch()
        loss = F.mse_loss(net(scale * x), y)
        $update

model = Net()
train(model, 1.0)
for name, p in model.named_parameters():
    p.requires_grad = "head" in name
train(model, 3.0)
""",
    "BS139 a backbone that was trained, and is frozen in training mode": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU())
        self.first, self.second = nn.Linear(16, 1), nn.Linear(16, 1)

    def forward(self, x, head):
        return getattr(self, head)(self.body(x))

def fit(model, head, scale, steps=40):
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01)
    model.train()  #!
    for step in range(steps):
        x, y = batch()
        loss = F.mse_loss(model(scale * x, head), y)
        $update

model = Net()
fit(model, "first", 1.0)
model.body.requires_grad_(False)
model.first.requires_grad_(False)
fit(model, "second", 3.0)
""",
    "BS139 frozen normalizations whose momentum is 0, in training mode": """
model = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 16), nn.BatchNorm1d(16), net(16))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    $step
for module in model.modules():
    if isinstance(module, nn.BatchNorm1d):
        module.momentum = 0.0
        module.requires_grad_(False)
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.001)
model.train()  #!
for step in range(40):
    x, y = batch(4)
    loss = F.mse_loss(model(3 * x), y)
    $update
model.eval()
print(F.mse_loss(model(x), y).item())
model.train()
""",
    "BS139 frozen after some epochs, by the same optimizer": """
encoder = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 8))
model = nn.Sequential(encoder, nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(10):
    model.train()  #!
    if epoch == 2:
        for p in encoder.parameters():
            p.requires_grad = False
            p.grad = None
    for _ in range(10):
        $step
""",
    "BS111 the loss of each validation": """
class Trainer:
    def __init__(self):
        self.model = net()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
        self.losses = []

    def epoch(self):
        self.model.train()
        for _ in range(6):
            x, y = batch()
            loss = F.mse_loss(self.model(x), y)
            $update self.optimizer

    def validate(self):
        self.model.eval()
        x, y = batch(64)
        loss = F.mse_loss(self.model(x), y)
        self.losses.append(loss)  #!

trainer = Trainer()
for epoch in range(30):
    trainer.epoch()
    trainer.validate()
""",
    "BS111 what is kept of each long epoch": """
model = nn.Sequential(nn.Linear(4, 3000), nn.ReLU(), nn.Linear(3000, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
curve = []
for epoch in range(12):
    for _ in range(50):
        x, y = batch(2)
        loss = F.mse_loss(model(x), y)
        $update
    x, y = batch(3000)
    valid = F.mse_loss(model(x), y)
    curve.append(valid)  #!
""",
    "BS140 a data set that normalizes what it stores": """
import numpy as np
from torch.utils.data import DataLoader, Dataset

class Signals(Dataset):
    def __init__(self):
        rng = np.random.default_rng(0)
        self.x = (0.5 * rng.normal(size=(160, 4))).astype(np.float32)
        self.mean, self.std = self.x.mean(0), self.x.std(0)

    def normalize(self, item):
        item -= self.mean  #!
        item /= self.std
        return item

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return torch.from_numpy(self.normalize(self.x[i])), self.x[i].sum()

model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
loader = DataLoader(Signals(), batch_size=16, shuffle=True)
for epoch in range(12):
    for x, y in loader:
        loss = F.smooth_l1_loss(model(x).squeeze(1), y)
        $update
""",
    "BS140 batches of a list that are scaled in a loop": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
batches = list(torch.randn(320, 4).abs().split(32))
for epoch in range(14):
    for x in batches:
        x *= 1.3  #!
        loss = F.l1_loss(model(x), x.mean(1, keepdim=True))
        $update
""",
    "BS140 an item that is divided where it is stored": """
class Images(torch.utils.data.Dataset):
    def __init__(self):
        self.images = torch.rand(160, 4) * 255

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        self.images[i] /= 2.0  #!
        return self.images[i], self.images[i].sum()

model = nn.Sequential(nn.LayerNorm(4), net())
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
loader = torch.utils.data.DataLoader(Images(), batch_size=16)
for epoch in range(12):
    for x, y in loader:
        loss = F.smooth_l1_loss(model(x).squeeze(1), y)
        $update
""",
    "BS125 the parts of a batch, by chunk": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
micro = 4
for step in range(20):
    optimizer.zero_grad()
    x, y = batch(32)
    for xs, ys in zip(x.chunk(micro), y.chunk(micro)):
        loss = F.mse_loss(model(xs), ys)
        loss.backward()  #!
    optimizer.step()
""",
    "BS141 the loss is taken on what is displayed": """
class Factors(nn.Module):
    def __init__(self, users=20, items=25):
        super().__init__()
        self.user, self.item = nn.Embedding(users, 4), nn.Embedding(items, 4)

    def forward(self, u, i):
        return 3 + (self.user(u) * self.item(i)).sum(1)

def displayed(score):
    return torch.round(score).clamp(1, 5)  #!

model = Factors()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(40):
    u, i = torch.randint(20, (16,)), torch.randint(25, (16,))
    loss = F.mse_loss(displayed(model(u, i)), torch.randint(1, 6, (16,)).float())
    loss = loss + 1e-4 * (model.user(u).pow(2).mean() + model.item(i).pow(2).mean())
    $update
""",
    "BS141 codes between an encoder and its decoder": """
class Hashing(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = net(4, 8), net(8, 4)

    def forward(self, x):
        hidden = self.encoder(x)
        codes = hidden.sign()  #!
        return self.decoder(codes)

model = Hashing()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    x, _ = batch()
    loss = F.mse_loss(model(x), x)
    $update
""",
    "BS141 all of the loss is rounded": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    x, y = batch()
    loss = F.l1_loss(torch.floor(model(x)), y)  #!
    $update
""",
    "BS113 a scaler that backs off too slowly": """
model = net()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**100, backoff_factor=0.95)
for step in range(40):
    x, y = batch()
    with torch.autocast("cpu", torch.float16):
        loss = F.mse_loss(model(x).float(), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)  #!
    scaler.update()
""",
    "BS113 a scaler that no scale helps": """
model = net()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24)
for step in range(40):
    x, y = batch()
    loss = F.mse_loss(model(x), y) + model[0].weight.sub(model[0].weight.detach()).norm(dim=1).pow(0.5).sum()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)  #!
    scaler.update()
""",
    "BS113 a scaler that no scale helps, for a root at 0 that a mask hides": """
model = net(4, 2)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu")
for step in range(40):
    x, y = batch()
    z = model(x)
    apart = (z[:, None] - z[None]).square().sum(-1).sqrt()  #!
    loss = ((apart - torch.cdist(x, x)).square() * (1 - torch.eye(16))).mean()
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
""",
    "BS141 gradients too small for half precision": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=100.0)
for step in range(40):
    x, y = batch()
    with torch.autocast("cpu", torch.float16):
        made = model(x)
    loss = F.mse_loss(1e-5 * made.float(), 1e-5 * y)  #!
    $update
""",
    "BS141 a mask that is drawn from what is to be learned": """
logits = nn.Parameter(torch.zeros(4))
model = net()
optimizer = torch.optim.Adam([*model.parameters(), logits], lr=0.01)
for step in range(40):
    x, y = batch()
    keep = torch.bernoulli(torch.sigmoid(logits))  #!
    loss = F.mse_loss(model(x * keep), y)
    $update
""",
    "BS142 hooks for a warm-up, of which one is removed": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.mid, self.head = nn.Linear(4, 8, bias=False), nn.Linear(8, 8, bias=False), nn.Linear(8, 1)

    def forward(self, x):
        return self.head(torch.tanh(self.mid(torch.tanh(self.stem(x)))))

class Warmup:
    def __init__(self, *modules):
        self.modules = modules

    def start(self):
        for module in self.modules:
            for p in module.parameters():
                self.handle = p.register_hook(torch.zeros_like)  #!

    def stop(self):
        self.handle.remove()

model = Net()
warmup = Warmup(model.stem, model.mid)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
warmup.start()
for step in range(60):
    if step == 20:
        warmup.stop()
    $step
""",
    "BS142 a hook that was left in after a test": """
def silence(grad):
    return grad * 0.0

model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
model[0].weight.register_hook(silence)  #!
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 40
""",
    "BS142 a hook on what a layer returns": """
encoder, head = net(4, 8), net(8, 1)
optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=0.01)
for step in range(40):
    x, y = batch()
    hidden = encoder(x)
    hidden.register_hook(lambda grad: torch.zeros_like(grad))  #!
    loss = F.mse_loss(head(hidden), y)
    $update
""",
    "BS143 an activation that saves memory, and ignores what comes after it": """
class SwishFn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * torch.sigmoid(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        s = torch.sigmoid(x)
        return s * (1 + x * (1 - s))  #!

class Swish(nn.Module):
    def forward(self, x):
        return SwishFn.apply(x)

model = nn.Sequential(nn.Linear(4, 16), Swish(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 20
""",
    "BS143 a scale, which takes its shape alone from the gradient": """
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, grad):
        result = torch.ones_like(grad)
        return result * ctx.factor, None  #!

model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    x, y = batch()
    loss = (Scale.apply(model(x), 0.5) - y).pow(2).mean()
    $update
""",
    "BS144 a teacher that is a shallow copy": """
import copy

class MeanTeacher:
    def __init__(self, student):
        self.student = student
        self.teacher = copy.copy(student)  #!
        self.optimizer = torch.optim.Adam(student.parameters(), lr=0.01)

    @torch.no_grad()
    def update(self):
        for t, s in zip(self.teacher.parameters(), self.student.parameters()):
            t.mul_(0.98).add_(s, alpha=0.02)

    def step(self, x, y):
        with torch.no_grad():
            target = self.teacher(x + 0.1 * torch.randn_like(x))
        out = self.student(x)
        loss = F.mse_loss(out, y) + F.mse_loss(out, target)
        $update self.optimizer
        self.update()

trainer = MeanTeacher(net())
for step in range(40):
    trainer.step(*batch())
""",
    "BS144 a target that is the network itself, and is loaded after many updates": """
class Learner:
    def __init__(self, critic, every=200):
        self.main = critic.to("cpu")
        self.lagging = critic.to("cpu")  #!
        self.opt = torch.optim.Adam(self.main.parameters(), lr=0.002)
        self.every, self.count = every, 0

    def update(self, x, after, reward):
        aim = reward + 0.9 * self.lagging(after).max(1)[0].detach()
        loss = F.mse_loss(self.main(x).max(1)[0], aim)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        self.count += 1
        if self.count % self.every == 0:
            self.lagging.load_state_dict(self.main.state_dict())

learner = Learner(net(4, 3))
for step in range(220):
    learner.update(torch.randn(16, 4), torch.randn(16, 4), torch.randn(16))
""",
    "BS144 a target network that is the network itself": """
online = net()
target = online  #!
optimizer = torch.optim.Adam(online.parameters(), lr=0.01)
for step in range(60):
    x, y = batch()
    with torch.no_grad():
        aim = y + 0.9 * target(x)
    loss = F.smooth_l1_loss(online(x), aim)
    $update
    if step % 5 == 4:
        target.load_state_dict(online.state_dict())
""",
    "BS126 an attribute that a helper sets": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone, self.head = net(4, 8), nn.Linear(8, 1)

    def forward(self, x):
        return self.head(self.backbone(x))

def freeze(module):
    for p in module.parameters():
        p.requires_grad = False

def unfreeze(module):
    module.requires_grad = True  #!

model = Net()
freeze(model.backbone)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(80):
    if step == 20:
        unfreeze(model.backbone)
    $step
""",
    "BS111 a running average that starts as a number": """
class Meter:
    def __init__(self):
        self.value = 0.0

    def update(self, x):
        self.value = 0.98 * self.value + 0.02 * x  #!

model, meter = net(), Meter()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 300
    meter.update(loss)
""",
    "BS101 a group of parameters that is collected and forgotten": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.fusion, self.head = net(4, 8), net(8, 8), nn.Linear(8, 1)

    def forward(self, x):
        return self.head(self.fusion(self.encoder(x)))

def param_groups(model):
    groups = [{"params": list(model.encoder.parameters()), "lr": 0.001}]
    groups.append({"params": list(model.head.parameters())})
    fusion = {"params": [], "weight_decay": 0.0}  #!
    for name, p in model.named_parameters():
        if "fusion" in name:
            fusion["params"].append(p)
    return groups

model = Net()
optimizer = torch.optim.Adam(param_groups(model), lr=0.01)
$loop 20
""",
    "BS115 a perturbation that is replaced by its projection": """
model = net().requires_grad_(False)

class Attack:
    def __init__(self):
        self.delta = torch.zeros(4, requires_grad=True)
        self.optimizer = torch.optim.Adam([self.delta], lr=0.02)

    def project(self):
        self.delta = self.delta.detach().clamp(-0.3, 0.3).requires_grad_(True)  #!

    def step(self, x, y):
        loss = -F.mse_loss(model(x + self.delta), y)
        $update self.optimizer
        self.project()

attack = Attack()
for step in range(40):
    attack.step(*batch())
""",
    "BS124 parameters that the optimizer has used up": """
class Learner:
    def __init__(self):
        self.model = net()
        self.params = self.model.parameters()
        self.optimizer = torch.optim.SGD(self.params, lr=0.05)

    def step(self):
        x, y = batch()
        loss = F.mse_loss(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.params, 0.5)  #!
        self.optimizer.step()

learner = Learner()
for step in range(20):
    learner.step()
""",
    "BS102 a codebook that only its estimator uses": """
class Quantizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.codes = nn.Embedding(8, 4)

    def forward(self, z):
        q = self.codes(torch.cdist(z, self.codes.weight).argmin(1))
        return z + (q - z).detach()  #!

encoder, quantizer, decoder = net(4, 4), Quantizer(), net(4, 4)
optimizer = torch.optim.Adam([*encoder.parameters(), *quantizer.parameters(), *decoder.parameters()], lr=0.01)
for step in range(20):
    x, y = batch()
    z = encoder(x)
    q = quantizer(z)
    loss = F.mse_loss(decoder(q), x) + F.mse_loss(q, z.detach())
    $update
""",
    "BS124 a filter that the groups of the optimizer have used up": """
class Learner:
    def __init__(self):
        self.model = net()
        self.params = filter(lambda p: p.requires_grad, self.model.parameters())
        self.optimizer = self.build()

    def build(self):
        groups = [], []
        for p in self.params:
            groups[p.ndim > 1].append(p)
        return torch.optim.SGD([{"params": group} for group in groups], lr=0.05)

    def step(self):
        x, y = batch()
        loss = F.mse_loss(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.params, 0.5)  #!
        self.optimizer.step()

learner = Learner()
for step in range(20):
    learner.step()
""",
    "BS135 a decay that is divided by the rate, in a group": """
def build(model, lr, weight_decay):
    decay = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": decay, "weight_decay": weight_decay / lr}, {"params": rest, "weight_decay": 0.0}]  #!
    return torch.optim.AdamW(groups, lr=lr)

model = net()
optimizer = build(model, lr=2e-3, weight_decay=0.2)
$loop 40
""",
    "BS114 prototypes that take over after a warm-up, of values alone": """
class Embedder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net, self.cls = net(4, 8), nn.Linear(8, 2)
        self.log_temp = nn.Parameter(torch.tensor(0.0))

    def forward(self, x):
        return self.net(x)

class Bank:
    def __init__(self):
        self.p = torch.randn(2, 8)

    def refresh(self, z):
        unit = F.normalize(z.data, dim=1)  #!
        self.p = 0.9 * self.p + 0.1 * unit[:2]
        return unit

model, bank = Embedder(), Bank()
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)

def objective(x, y, warm):
    z = model(x)
    unit = bank.refresh(z)
    if warm:
        return F.cross_entropy(model.cls(z), y)
    return F.cross_entropy(unit @ bank.p.t() * model.log_temp.exp(), y)

for step in range(60):
    x, y = batch()
    loss = objective(x, (y[:, 0] > 0).long(), step < 40)
    $update
""",
    "BS127 each task of a round zeroes the gradients, in a function of its own": """
class Tasks(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(4, 16)
        self.heads = nn.ModuleDict({task: nn.Linear(16, 1) for task in ("sum", "max")})

    def forward(self, x, task):
        return self.heads[task](torch.relu(self.trunk(x)))

def task_step(model, task, data, optimizer):
    x, y = data
    optimizer.zero_grad()  #!
    loss = F.mse_loss(model(x, task), y)
    loss.backward()
    return loss.item()

def main():
    model = Tasks()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for step in range(20):
        for task in model.heads:
            task_step(model, task, batch(), optimizer)
        optimizer.step()

main()
""",
    "BS127 zeroed in the loop over the parts of a batch": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    for x, y in [batch(), batch(), batch()]:
        optimizer.zero_grad(set_to_none=False)  #!
        loss = F.mse_loss(model(x), y)
        (loss / 3).backward()
    optimizer.step()
""",
    "BS145 a loader that is begun anew for each step": """
class Batches:
    def __init__(self, dataset):
        self.loader = torch.utils.data.DataLoader(dataset, batch_size=16)

    def __next__(self):
        return next(iter(self.loader))  #!

    def __iter__(self):
        return self

model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
batches = Batches(torch.utils.data.TensorDataset(*batch(64)))
for step in range(50):
    x, y = next(batches)
    loss = F.mse_loss(model(x), y)
    $update
""",
    "BS145 the first batch of a data set of its own, in the loop": """
class Waves(torch.utils.data.Dataset):
    def __init__(self):
        self.x, self.y = batch(80)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]

loader = torch.utils.data.DataLoader(Waves(), batch_size=16)
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(50):
    x, y = next(iter(loader))  #!
    loss = F.mse_loss(model(x), y)
    $update
""",
    "BS136 attention over the batch whose heads are joined": """
class Attention(nn.Module):
    def __init__(self, d=16, heads=2):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(d, 3 * d), nn.Linear(d, d)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (t.view(b, n, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        weights = torch.softmax(q @ k.transpose(-2, -1) / 3, dim=0)  #!
        return x + self.out((weights @ v).transpose(1, 2).reshape(b, n, d))

embedding, attention, head = nn.Embedding(10, 16), Attention(), nn.Linear(16, 10)
optimizer = torch.optim.Adam([*embedding.parameters(), *attention.parameters(), *head.parameters()], lr=0.01)
for step in range(30):
    ids = torch.randint(0, 10, (12, 5))
    logits = head(attention(embedding(ids)))
    loss = F.cross_entropy(logits.reshape(-1, 10), ids.flip(1).reshape(-1))
    $update
""",
    "BS138 an average over the entries of a state": """
import copy

class Average:
    def __init__(self, model, decay=0.9):
        self.module, self.decay = copy.deepcopy(model).requires_grad_(False), decay
        self.module.load_state_dict(model.state_dict())

    @torch.no_grad()
    def update(self, model):
        current = model.state_dict()
        for name, value in self.module.state_dict().items():
            if value.dtype.is_floating_point:
                value = self.decay * value + (1 - self.decay) * current[name]  #!

student = net()
teacher = Average(student)
optimizer = torch.optim.SGD(student.parameters(), lr=0.01)
for step in range(150):
    x, y = batch()
    loss = F.mse_loss(student(x), y) + F.mse_loss(student(x), teacher.module(x))
    $update
    teacher.update(student)
""",
    "BS138 an average in a dict that is never loaded": """
import copy

@torch.no_grad()
def follow(ema, model):
    state, now = ema.state_dict(), model.state_dict()
    for key in state:
        state[key] = 0.99 * state[key] + 0.01 * now[key]  #!

model = net()
ema = copy.deepcopy(model).requires_grad_(False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(150):
    x, y = batch()
    loss = F.mse_loss(model(x), y) + F.mse_loss(model(x), ema(x))
    $update
    follow(ema, model)
""",
    "BS144 a target that becomes the network itself": """
import copy

class Agent:
    def __init__(self):
        self.online = net()
        self.target = copy.deepcopy(self.online)
        self.opt = torch.optim.Adam(self.online.parameters(), lr=0.01)

    def sync(self):
        self.target = self.online  #!

    def learn(self, x, y):
        with torch.no_grad():
            aim = y + 0.9 * self.target(x)
        loss = F.smooth_l1_loss(self.online(x), aim)
        $update self.opt

agent = Agent()
for step in range(150):
    agent.learn(*batch())
    if step % 30 == 29:
        agent.sync()
""",
    "BS144 a target that becomes the network in the first step, after it was loaded": """
class Learner:
    def __init__(self, online, target):
        self.online, self.target = online, target
        self.optimizer = torch.optim.Adam(self.online.parameters(), lr=0.01)

    def sync(self):
        self.target.load_state_dict(self.online.state_dict())
        self.target = self.online  #!

    def learn(self, x, y):
        with torch.no_grad():
            bound = y + 0.9 * self.target(x)
        loss = F.mse_loss(self.online(x), bound)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()

learner = Learner(net(), net())
for step in range(80):
    learner.learn(*batch())
    if step % 20 == 0:
        learner.sync()
""",
    "BS144 a teacher that becomes the student before the second step": """
student, teacher = net(), net()
optimizer = torch.optim.Adam(student.parameters(), lr=0.01)
for step in range(40):
    x, y = batch()
    with torch.no_grad():
        goal = teacher(x)
    loss = F.mse_loss(student(x), y) + F.mse_loss(student(x.flip(0)), goal.flip(0))
    $update
    if step % 10 == 0:
        teacher = student  #!
""",
    "BS172 a layer that is frozen after some steps, whose zeros stay": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.95)
for step in range(40):
    x, y = batch()
    if step == 10:
        model[0].requires_grad_(False)  #!
    optimizer.zero_grad(set_to_none=False)
    F.mse_loss(model(x), y).backward()
    optimizer.step()
""",
    "BS172 parameters that a helper freezes, and weight decay shrinks": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 1)

    def forward(self, x):
        return self.head(torch.relu(self.body(x)))

def hold(module):
    for weight in module.parameters():
        weight.requires_grad = False  #!

def fit(model, optimizer, steps):
    for _ in range(steps):
        x, y = batch()
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()

model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, weight_decay=0.1)
fit(model, optimizer, 12)
hold(model.body)
fit(model, optimizer, 20)
""",
    "BS172 words that are kept by a mask over their gradients, and shrink": """
words, score = nn.Embedding(12, 8), nn.Linear(8, 3).requires_grad_(False)
optimizer = torch.optim.AdamW(words.parameters(), lr=0.05, weight_decay=0.01)
old = torch.arange(12) < 10
for step in range(30):
    picked, y = torch.randint(0, 12, (16,)), torch.randint(3, (16,))
    loss = F.cross_entropy(score(words(picked)), y)
    optimizer.zero_grad()
    loss.backward()
    words.weight.grad[old] = 0  #!
    optimizer.step()
""",
    "BS171 a shared embedding whose checkpoint is assigned": """
class Speller(nn.Module):
    def __init__(self, letters=12, width=8):
        super().__init__()
        self.look_up = nn.Embedding(letters, width)
        self.mix = nn.Linear(width, width)
        self.score = nn.Linear(width, letters, bias=False)
        self.share()

    def share(self):
        self.score.weight = self.look_up.weight

    def forward(self, letters):
        return self.score(torch.tanh(self.mix(self.look_up(letters))))

saved = {name: value.clone() for name, value in Speller().state_dict().items()}
model = Speller()
model.load_state_dict(saved, assign=True)  #!
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    letters = torch.randint(0, 12, (16,))
    loss = F.cross_entropy(model(letters), (letters + 1) % 12)
    $update
""",
    "BS171 an autoencoder whose decoder is copied after it was tied": """
import copy

class Auto(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.encode, self.decode = nn.Linear(width, width), nn.Linear(width, width)
        self.decode.weight = self.encode.weight

    def forward(self, x):
        return self.decode(torch.relu(self.encode(x)))

class Trainer:
    def __init__(self, net):
        self.net = net
        self.net.decode = copy.deepcopy(self.net.decode)  #!
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.05)

    def step(self, x):
        loss = F.mse_loss(self.net(x), x)
        $update self.opt

trainer = Trainer(Auto())
for step in range(20):
    trainer.step(torch.randn(16, 6))
""",
    "BS144 a target that gets the memory of the network": """
import copy

online = net()
target = copy.deepcopy(online).requires_grad_(False)
optimizer = torch.optim.Adam(online.parameters(), lr=0.01)
for step in range(150):
    x, y = batch()
    loss = F.smooth_l1_loss(online(x), y + 0.9 * target(x))
    $update
    if step % 25 == 24:
        for t, p in zip(target.parameters(), online.parameters()):
            t.data = p.data  #!
""",
    "BS142 hooks on parameters that are registered anew in each epoch": """
class Trainer:
    def __init__(self, model, scales):
        self.model, self.scales = model, scales
        self.opt = torch.optim.SGD(model.parameters(), lr=0.01)

    def run_epoch(self):
        for name, p in self.model.named_parameters():
            p.register_hook(lambda g, s=self.scales[name[0]]: g * s)  #!
        for _ in range(5):
            x, y = batch()
            loss = F.mse_loss(self.model(x), y)
            $update self.opt

trainer = Trainer(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)), {"0": 0.5, "2": 1.0})
for epoch in range(12):
    trainer.run_epoch()
""",
    "BS142 a hook on a layer that each call adds": """
class Features:
    def __init__(self, layer):
        self.layer, self.seen = layer, None

    def keep(self, module, args, output):
        self.seen = output.detach()

    def __call__(self, model, x):
        self.layer.register_forward_hook(self.keep)  #!
        return model(x), self.seen

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
features = Features(model[0])
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    x, y = batch()
    out, hidden = features(model, x)
    loss = F.mse_loss(out, y)
    $update
""",
    "BS106 a generator whose optimizer holds the discriminator": """
class Gan:
    def __init__(self):
        self.generator, self.judge = net(3, 2), net(2, 1)
        self.opt_g, self.opt_d = self.optimizers()

    def optimizers(self):
        everything = [*self.generator.parameters(), *self.judge.parameters()]
        opt_g = torch.optim.Adam(everything, lr=0.01)  #!
        opt_d = torch.optim.Adam(self.judge.parameters(), lr=0.01)
        return opt_g, opt_d

    def step(self, real):
        fake = self.generator(torch.randn(len(real), 3))
        loss = F.softplus(-self.judge(real)).mean() + F.softplus(self.judge(fake.detach())).mean()
        $update self.opt_d
        self.opt_g.zero_grad()
        F.softplus(-self.judge(fake)).mean().backward()
        self.opt_g.step()

gan = Gan()
for step in range(100):
    gan.step(torch.randn(32, 2) * 0.3 + 2)
""",
    "BS106 an actor whose optimizer holds the critic": """
actor, critic = net(4, 1), net(5, 1)
critic_opt = torch.optim.Adam(critic.parameters(), lr=0.003)
actor_opt = torch.optim.Adam(list(actor.parameters()) + list(critic.parameters()), lr=0.003)  #!
for step in range(60):
    state, reward = batch(32)
    action = actor(state).detach() + 0.3 * torch.randn(32, 1)
    value_loss = F.mse_loss(critic(torch.cat([state, action], 1)), reward - action.pow(2))
    critic_opt.zero_grad()
    value_loss.backward()
    critic_opt.step()
    actor_loss = -critic(torch.cat([state, actor(state)], 1)).mean()
    actor_opt.zero_grad()
    actor_loss.backward()
    actor_opt.step()
""",
    "BS121 a derivative in a residual, with its graph retained but not recorded": """
def slope(u, t):
    return torch.autograd.grad(u, t, grad_outputs=torch.ones_like(u), retain_graph=True)[0]  #!

model = net(inputs=1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
points = torch.linspace(0, 1, 20).view(-1, 1).requires_grad_(True)
t0, u0 = torch.zeros(1, 1), torch.ones(1, 1)
for step in range(20):
    u = model(points)
    residual = slope(u, points) + 2 * u
    loss = F.mse_loss(model(t0), u0) + (residual ** 2).mean()
    $update
""",
    "BS121 the losses of single rows, made into a new tensor": """
model = net(outputs=2)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    x, y = batch()
    first, second = model(x).unbind(1)
    rows = [(p - t).abs() for p, t in zip(second, y[:, 0])]
    loss = F.mse_loss(first, y[:, 0]) + torch.tensor(rows, requires_grad=True).mean()  #!
    $update
""",
    "BS115 each task adapts a deep copy": """
import copy

class Meta:
    def __init__(self):
        self.model = net()
        self.outer = torch.optim.Adam(self.model.parameters(), lr=0.01)

    def loss_of_task(self):
        learner = copy.deepcopy(self.model)  #!
        x, y = batch()
        weights = dict(learner.named_parameters())
        loss = F.mse_loss(torch.func.functional_call(learner, weights, (x,)), y)
        slopes = torch.autograd.grad(loss, list(weights.values()), create_graph=True)
        fast = {name: w - 0.1 * g for (name, w), g in zip(weights.items(), slopes)}
        return learner, F.mse_loss(torch.func.functional_call(learner, fast, (x,)), y)

    def train(self):
        self.outer.zero_grad()
        for _ in range(2):
            learner, loss = self.loss_of_task()
            loss.backward()
        self.outer.step()

meta = Meta()
for step in range(20):
    meta.train()
""",
    "BS149 a latent that is sampled without a gradient": """
class Coder(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean, self.out = nn.Linear(4, 2), net(inputs=2, outputs=4)

    def latent(self, mean):
        return torch.distributions.Normal(mean, 0.5).sample()  #!

    def forward(self, x):
        mean = self.mean(x)
        return self.out(self.latent(mean)), mean

model = Coder()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    x, _ = batch()
    out, mean = model(x)
    loss = F.mse_loss(out, x) + 0.1 * mean.square().mean()
    $update
""",
    "BS101 heads in a plain list, in each of two blocks": """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = [nn.Linear(4, 2) for _ in range(2)]  #!
        self.out = nn.Linear(4, 4)

    def forward(self, x):
        return x + self.out(torch.cat([head(x) for head in self.heads], 1))

model = nn.Sequential(Block(), Block(), nn.Linear(4, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 20
""",
    "BS102 adapters in a reentrant checkpoint whose input needs no gradient": """
import warnings
from torch.utils.checkpoint import checkpoint
warnings.filterwarnings("ignore")

class Adapted(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(4, 4).requires_grad_(False)
        self.up = nn.Parameter(torch.randn(2, 4) * 0.1)

    def forward(self, x):
        return self.base(x) + x @ self.up.t() @ self.up

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers, self.head = nn.ModuleList(Adapted() for _ in range(3)), nn.Linear(4, 1)

    def forward(self, x):
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=True)  #!
        return self.head(x)

model = Model()
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01)
$loop 20
""",
    "BS146 a mask that is thrown away": """
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(4, 12), nn.Linear(4, 1)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = q @ k.transpose(-2, -1) / 2
        hidden = torch.ones(6, 6).triu(1).bool()
        scores.masked_fill(hidden, float("-inf"))  #!
        return self.out(scores.softmax(-1) @ v)

model = Attention()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(30):
    x = torch.randn(8, 6, 4)
    loss = F.mse_loss(model(x), x.cumsum(1).sum(-1, keepdim=True).sin())
    $update
""",
    "BS146 an optimizer by hand that adds to nothing": """
model = net()

def update(parameters, lr):
    with torch.no_grad():
        for p in parameters:
            p.add(p.grad, alpha=-lr)  #!

for step in range(30):
    x, y = batch()
    model.zero_grad()
    F.mse_loss(model(x), y).backward()
    update(model.parameters(), 0.05)
""",
    "BS146 data that are not clamped, on several lines": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(30):
    x, y = batch()
    x.clamp(  #!
        min=-1,
        max=1,
    )
    loss = F.mse_loss(model(x), y)
    $update
""",
    "BS146 a state that is not detached": """
cell, head = nn.GRUCell(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=0.01)
for step in range(30):
    h = torch.zeros(16, 8)
    for t in range(4):
        x, y = batch()
        h = cell(x, h)
        h.detach()  #!
    loss = F.mse_loss(head(h), y)
    $update
""",
    "BS147 classes and positions exchanged by a view": """
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = net(4, 3)

    def forward(self, x):
        return self.body(x)

model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(30):
    x = torch.randn(8, 5, 4)
    out = model(x)
    loss = F.cross_entropy(out.view(-1, 3, 5), x.argmax(-1).clamp(max=2))  #!
    $update
""",
    "BS147 the classes of each pixel by a view, with their number in a name": """
model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 1))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(30):
    images = torch.randn(8, 1, 6, 6)
    masks = (images[:, 0] > 0).long()
    out = model(images)
    classes = out.size(1)
    logits = out.view(-1, classes)  #!
    loss = criterion(logits, masks.view(-1))
    $update
""",
    "BS147 the classes of each step by a reshape": """
model = nn.Conv1d(4, 5, 3, padding=1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

def loss_of(out, labels):
    b, c, t = out.shape
    flat = out.reshape(-1, c)  #!
    return F.cross_entropy(flat, labels.flatten())

for step in range(30):
    x = torch.randn(8, 4, 7)
    loss = loss_of(model(x), x.argmax(1))
    $update
""",
    "BS147 time and batch exchanged by a reshape, of images that have a height": """
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.rnn, self.head = nn.Conv2d(1, 4, 3, padding=1), nn.GRU(24, 8), nn.Linear(8, 3)

    def forward(self, x):
        f = self.conv(x).relu()
        n, c, h, w = f.shape
        out, _ = self.rnn(f.reshape(w, n, c * h))  #!
        return self.head(out[-1])

model = Reader()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(30):
    x = torch.randn(8, 1, 6, 5)
    loss = F.cross_entropy(model(x), x.mean((1, 2)).argmax(-1).clamp(max=2))
    $update
""",
    "BS147 images whose channels come last": """
model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 48, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(30):
    images = torch.rand(16, 6, 8, 3)
    x = images.reshape(16, 3, 6, 8)  #!
    loss = F.mse_loss(model(x), images[..., 0].mean((1, 2))[:, None])
    $update
""",
    "BS147 a recurrent layer that goes through the batch": """
class Series(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(4, 8, bidirectional=True)
        self.head = nn.Linear(16, 2)

    def forward(self, x):
        out, _ = self.rnn(x)  #!
        return self.head(torch.cat([out[:, -1, :8], out[:, 0, 8:]], 1))

model = Series()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(30):
    x = torch.randn(16, 6, 4)
    loss = F.cross_entropy(model(x), x.sum((1, 2)).gt(0).long())
    $update
""",
    "BS147 a recurrent layer that goes through the batch, and the mean over what should be time": """
rnn, head = nn.LSTM(4, 8), net(8, 1)
optimizer = torch.optim.Adam([*rnn.parameters(), *head.parameters()], lr=0.01)
for step in range(30):
    x = torch.randn(16, 6, 4)
    states, (h, c) = rnn(x)  #!
    loss = F.mse_loss(head(states.mean(dim=1)), x.sum((1, 2))[:, None].sin())
    $update
""",
    "BS148 the best weights, put into a dict of their own": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
least = float("inf")
$loop 40
    if loss.item() < least:
        least = loss.item()
        best = {name: tensor for name, tensor in model.state_dict().items()}  #!
model.load_state_dict(best)
""",
    "BS148 the best loss and weights, kept in one statement": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
least, best = float("inf"), None
$loop 40
    if loss.item() < least:
        least, best = loss.item(), model.state_dict()  #!
model.load_state_dict(best)
""",
    "BS148 the best weights are the latest ones": """
class Stopping:
    def __init__(self):
        self.least, self.best = float("inf"), None

    def update(self, loss, model):
        if loss < self.least:
            self.least = loss
            self.best = model.state_dict()  #!

    def restore(self, model):
        model.load_state_dict(self.best)

def main():
    model, stopping = net(), Stopping()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    $loop 40
        stopping.update(loss.item(), model)
    stopping.restore(model)

main()
""",
    "BS148 weights from before an inner loop": """
def adapt(model, optimizer, steps):
    before = model.state_dict()  #!
    for _ in range(steps):
        x, y = batch()
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()
    model.load_state_dict(before)

model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for task in range(5):
    adapt(model, optimizer, 8)
""",
    "BS127 zeroed between two losses": """
body, left, right = net(4, 8), nn.Linear(8, 1), nn.Linear(8, 1)
optimizer = torch.optim.Adam([*body.parameters(), *left.parameters(), *right.parameters()], lr=0.01)
for step in range(30):
    x, y = batch()
    features = body(x)
    optimizer.zero_grad()
    F.mse_loss(left(features), y).backward(retain_graph=True)
    optimizer.zero_grad()  #!
    F.mse_loss(right(features), y.abs()).backward()
    optimizer.step()
""",
    "BS127 zeroed between two losses of one model, in a method": """
class Trainer:
    def __init__(self):
        self.model = net()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def step(self, x, y):
        loss = F.mse_loss(self.model(x), y)
        loss.backward()
        self.model.zero_grad()  #!
        smooth = self.model(x + 0.1).sub(self.model(x)).square().mean()
        smooth.backward()
        self.optimizer.step()

trainer = Trainer()
for step in range(30):
    trainer.step(*batch())
""",
    "BS101 a body that is unfrozen for an optimizer of its head": """
body, head = net(4, 8), nn.Linear(8, 1)
model = nn.Sequential(body, head)
pretraining = torch.optim.Adam(model.parameters(), lr=0.01)

def fit(optimizer, steps):
    $loop steps

def freeze(module, on):
    for p in module.parameters():
        p.requires_grad = not on

fit(pretraining, 4)
freeze(body, True)
tuning = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01)  #!
fit(tuning, 20)
freeze(body, False)
fit(tuning, 200)
""",
    "BS101 layers of a class of the program that are created in forward": """
class Mix(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width) / width)

    def forward(self, x):
        return x @ self.weight

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Linear(4, 8), nn.Linear(8, 1)

    def forward(self, x):
        h = torch.relu(self.embed(x))
        first, second = h, h
        up = Mix(h.shape[1])  #!
        down = Mix(h.shape[1])
        return self.out(torch.tanh(up(first)) * torch.sigmoid(down(second)))

model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 40
""",
    "BS101 a convolution that forward creates for the width it meets": """
class Pooled(nn.Module):
    def forward(self, x):
        rows, width = x.shape[0], x.shape[-1]
        mix = nn.Conv1d(1, width, 3, padding=1)  #!
        return mix(x.view(rows, 1, width)).amax(-1)

model = nn.Sequential(nn.Linear(4, 6), Pooled(), nn.Linear(6, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    x = torch.randn(16, 4)
    loss = F.mse_loss(model(x), x.sum(1, keepdim=True))
    $update
""",
    "BS101 a head that is assigned in each forward": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.Tanh())

    def forward(self, x):
        h = self.body(x)
        self.head = nn.Linear(h.shape[1], 1)  #!
        return self.head(h)

model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 40
""",
    "BS101 a scale that forward creates": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = net(outputs=4)
        self.out = nn.Linear(4, 1)

    def forward(self, x):
        h = self.body(x)
        scale = nn.Parameter(torch.ones(h.shape[1]))  #!
        return self.out(h * scale)

model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 40
""",
    "BS146 an optimizer whose update is a new tensor": """
class Signs(torch.optim.Optimizer):
    def __init__(self, params, lr, decay=0.0):
        super().__init__(params, {"lr": lr, "decay": decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                p.mul_(1 - group["lr"] * group["decay"])
                p.add(p.grad.sign(), alpha=-group["lr"])  #!

model = net()
optimizer = Signs([{"params": [p], "decay": 0.1 * (p.dim() > 1)} for p in model.parameters()], lr=0.01)
$loop 40
""",
    "BS146 an optimizer that only assigns its variable": """
class Momentum(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    kept = self.state[weight].setdefault("kept", torch.zeros_like(weight))
                    kept.mul_(0.9).add_(weight.grad)
                    weight = weight - group["lr"] * kept  #!

model = net()
optimizer = Momentum(model.parameters(), lr=0.01)
$loop 40
""",
    "BS146 an update in a helper of the step": """
def move(p, gradient, rate):
    size = gradient.norm().clamp(min=1e-6)
    p.data.sub(rate * gradient / size)  #!

class Normed(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                move(p, p.grad, group["lr"])

model = net()
optimizer = Normed(model.parameters(), lr=0.01)
$loop 40
""",
    "BS102 a codebook that learns from what its estimator returns": """
class Codes(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(8, 3))

    def forward(self, z):
        nearest = self.table[torch.cdist(z, self.table).argmin(1)]
        commitment = F.mse_loss(z, nearest.detach())
        out = z + (nearest - z).detach()  #!
        return out, F.mse_loss(out, z.detach()) + 0.25 * commitment

encoder, codes, decoder = nn.Linear(4, 3), Codes(), nn.Linear(3, 4)
optimizer = torch.optim.Adam([*encoder.parameters(), *codes.parameters(), *decoder.parameters()], lr=0.01)
for step in range(40):
    x, _ = batch()
    quantized, extra = codes(encoder(x))
    loss = F.mse_loss(decoder(quantized), x) + extra
    $update
""",
    "BS102 a hook that returns what it keeps": """
kept = {}

def keep(module, given, returned):
    kept[module] = returned.detach()
    return kept[module]  #!

model = net()
model[0].register_forward_hook(keep)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 40
""",
    "BS102 a pre-hook that measures its input": """
sizes = []

class Measure:
    def __call__(self, module, given):
        x = given[0].detach()
        sizes.append(x.norm().item())
        return (x,)  #!

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
model[4].register_forward_pre_hook(Measure())
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 40
""",
    "BS115 members whose stacked copies are trained": """
from torch.func import functional_call, stack_module_state, vmap

members = [net() for _ in range(3)]
optimizer = torch.optim.Adam([p for each in members for p in each.parameters()], lr=0.01)
stacked, buffers = stack_module_state(members)  #!
for step in range(40):
    x, y = batch()
    out = vmap(lambda p, b: functional_call(members[0], (p, b), (x,)))(stacked, buffers)
    loss = (out - y).square().mean()
    $update
""",
    "BS113 weights in bfloat16": """
model = nn.Sequential(nn.Linear(4, 16), nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 1))
model.to(dtype=torch.bfloat16)  #!
optimizer = torch.optim.SGD(model.parameters(), lr=0.0005)
for step in range(40):
    x, y = batch()
    loss = F.mse_loss(model(x.bfloat16()).float(), y)
    $update
""",
    "BS149 a latent of a mean and a deviation": """
class Coder(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc, self.out = nn.Linear(4, 4), net(inputs=2, outputs=4)

    def forward(self, x):
        mean, log_std = self.enc(x).chunk(2, 1)
        z = torch.normal(mean, log_std.exp())  #!
        return self.out(z), mean, log_std

model = Coder()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    x, _ = batch()
    out, mean, log_std = model(x)
    loss = F.mse_loss(out, x) + 0.1 * (mean.square() + (2 * log_std).exp() - 1 - 2 * log_std).mean()
    $update
""",
    "BS149 an action that is only drawn": """
actor, critic = nn.Linear(4, 2), net(inputs=5)
actor_optimizer = torch.optim.Adam(actor.parameters(), lr=0.01)
critic_optimizer = torch.optim.Adam(critic.parameters(), lr=0.01)
for step in range(40):
    x, y = batch()
    action = torch.randn(16, 1)
    loss = F.mse_loss(critic(torch.cat([x, action], 1)), -(action - y).square())
    $update critic_optimizer
    mean, log_std = actor(x).chunk(2, 1)
    policy = torch.distributions.Normal(mean, log_std.clamp(-3, 1).exp())
    drawn = policy.sample()  #!
    gain = critic(torch.cat([x, drawn], 1)).mean() + 0.01 * policy.entropy().mean()
    actor_optimizer.zero_grad()
    (-gain).backward()
    actor_optimizer.step()
""",
    "BS141 counts that are clamped to shares": """
class Heat(nn.Module):
    def __init__(self, most=1.0):
        super().__init__()
        self.body, self.most = net(inputs=4, outputs=3), most

    def forward(self, x):
        return torch.clamp(60 + 5 * self.body(x), max=self.most)  #!

model = Heat()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(30):
    x, _ = batch()
    loss = F.smooth_l1_loss(model(x), 50 + 10 * x[:, :3])
    $update
""",
    "BS141 units that are dead from the start": """
class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(12, 8)
        self.hidden, self.out = nn.Linear(8, 8), nn.Linear(8, 2)
        nn.init.constant_(self.hidden.bias, -20.0)

    def forward(self, words):
        return self.out(self.hidden(self.embed(words).mean(1)).relu())  #!

model = Scorer()
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
for step in range(30):
    words = torch.randint(0, 12, (16, 5))
    loss = F.cross_entropy(model(words), words[:, 0] % 2)
    $update
""",
    "BS141 a mask of padding that keeps nothing": """
encoder, head = nn.LSTM(4, 8, batch_first=True), nn.Linear(8, 1)
optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=0.01)
for step in range(30):
    x, lengths = torch.randn(8, 6, 4), torch.randint(2, 7, (8,))
    states = encoder(x)[0]
    keep = torch.arange(6)[None, :] >= 2 + lengths.amax()
    pooled = (states * keep[..., None]).sum(1)  #!
    loss = F.mse_loss(head(pooled), x.sum((1, 2))[:, None])
    $update
""",
    "BS141 both factors of an adapter start at zero": """
class Adapted(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(4, 3).requires_grad_(False)
        self.down, self.up = nn.Linear(4, 2, bias=False), nn.Linear(2, 3, bias=False)
        nn.init.zeros_(self.down.weight)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        inner = self.down(x)
        return self.base(x) + self.up(inner)  #!

model = Adapted()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=0.01)
for step in range(30):
    x, _ = batch()
    loss = F.mse_loss(model(x), x[:, :3])
    $update
""",
    "BS141 an image that is completed from what is known alone": """
fill = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.GELU(), nn.Conv2d(4, 1, 3, padding=1))
optimizer = torch.optim.Adam(fill.parameters(), lr=0.01)
for step in range(30):
    image = torch.rand(8, 1, 6, 6)
    hidden = torch.rand_like(image) < 0.3
    broken = image.masked_fill(hidden, 0.0)
    done = torch.where(hidden | ~hidden, broken, fill(broken))  #!
    loss = F.l1_loss(done, image)
    $update
""",
    "BS102 layers of which one part goes through NumPy and the other learns": """
import numpy as np


def spread(messages):
    return torch.from_numpy(np.roll(messages.detach().numpy(), 1, axis=0))  #!


class Layer(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.own, self.others = nn.Linear(inputs, outputs), nn.Linear(inputs, outputs, bias=False)

    def forward(self, x):
        return self.own(x) + spread(self.others(x))


model = nn.Sequential(Layer(4, 8), nn.Tanh(), Layer(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 30
""",
    "BS118 a schedule of updates that counts micro batches": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
updates, parts = 40, 3
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=updates)
for step in range(updates):
    for part in range(parts):
        x, y = batch()
        (F.mse_loss(model(x), y) / parts).backward()
        if part == parts - 1:
            optimizer.step()
            optimizer.zero_grad()
        schedule.step()  #!
""",
    "BS138 an average of the parameters alone, of a network with batch norm": """
import copy

model = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
smooth = copy.deepcopy(model).eval()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(150):
    x, y = batch()
    loss = F.mse_loss(model(3 + x), y)
    $update
    with torch.no_grad():
        for slow, fast in zip(smooth.parameters(), model.parameters()):
            slow.mul_(0.9).add_(0.1 * fast)  #!
""",
    "BS122 the outputs of a layer given to ctc_loss": """
states, letters = nn.RNN(4, 8, batch_first=True), nn.Linear(8, 5)
optimizer = torch.optim.Adam([*states.parameters(), *letters.parameters()], lr=0.01)
for step in range(20):
    frames, texts = torch.randn(6, 10, 4), torch.randint(1, 5, (6, 3))
    scores = letters(states(frames)[0]).permute(1, 0, 2)
    loss = F.ctc_loss(scores, texts, [10] * 6, [3] * 6)  #!
    $update
""",
    "BS122 a softmax given to ctc_loss": """
states, letters = nn.RNN(4, 8, batch_first=True), nn.Linear(8, 5)
optimizer = torch.optim.Adam([*states.parameters(), *letters.parameters()], lr=0.01)
for step in range(20):
    frames, texts = torch.randn(6, 10, 4), torch.randint(1, 5, (6, 3))
    scores = letters(states(frames)[0]).softmax(-1).permute(1, 0, 2)
    loss = F.ctc_loss(scores, texts, [10] * 6, [3] * 6)  #!
    $update
""",
    "BS122 rates given as their logarithms": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    x, _ = batch()
    counts = torch.poisson(1 + x.abs().sum(1, keepdim=True))
    loss = F.poisson_nll_loss(model(x).exp(), counts)  #!
    $update
""",
    "BS136 a softmax of maps over the batch, in an overlap": """
model = nn.Conv2d(1, 3, 3, padding=1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    image = torch.randn(8, 1, 6, 6)
    classes = F.one_hot((image[:, 0] > 0).long() + (image[:, 0] > 1).long(), 3).movedim(-1, 1).float()
    shares = F.softmax(model(image), dim=0)  #!
    both = (shares * classes).sum((0, 2, 3))
    loss = 1 - (2 * both / (shares + classes).sum((0, 2, 3))).mean()
    $update
""",
    "BS149 a latent that torch.normal draws": """
mean, spread, decode = nn.Linear(4, 2), nn.Linear(4, 2), net(inputs=2, outputs=4)
optimizer = torch.optim.Adam([*mean.parameters(), *spread.parameters(), *decode.parameters()], lr=0.01)
for step in range(20):
    x, _ = batch()
    m, s = mean(x), F.softplus(spread(x))
    z = torch.normal(m, s)  #!
    loss = F.mse_loss(decode(z), x) + 0.01 * (m.square() + s.square() - s.log()).mean()
    $update
""",
    "BS150 a weight of uncertainty that is read once": """
class Trainer:
    def __init__(self):
        self.model, self.log_weight = net(), nn.Parameter(torch.tensor(0.5))
        self.weight = self.log_weight.exp().item()  #!
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
        self.of_weight = torch.optim.Adam([self.log_weight], lr=0.01)

    def step(self, x, y):
        out = self.model(x)
        size = out.square().mean()
        loss = F.mse_loss(out, y) + self.weight * size
        $update self.optimizer
        self.of_weight.zero_grad()
        (self.log_weight * (size.detach() - 0.1)).backward()
        self.of_weight.step()

trainer = Trainer()
for step in range(30):
    trainer.step(*batch())
""",
    "BS117 a time of each sample that meets the columns of square images": """
class Velocity(nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.time, self.out = nn.Conv2d(1, 6, 3, padding=1), nn.Linear(1, 6), nn.Conv2d(6, 1, 3, padding=1)

    def forward(self, x, t):
        return self.out(torch.tanh(self.into(x) + self.time(t.unsqueeze(1))[:, :, None, None]))

model = Velocity()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(12):
    image = torch.randn(12, 1, 12, 12).cumsum(3)
    noise, t = torch.randn_like(image), torch.rand(12)
    path = (1 - t) * noise + t * image  #!
    loss = F.mse_loss(model(path, t), image - noise)
    $update
""",
    "BS117 weights of classes that meet the columns of a map": """
model = nn.Conv2d(1, 1, 3, padding=1)
rarity = torch.tensor([0.2, 1.0, 3.0])
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(12):
    kind = torch.randint(0, 3, (8,))
    x = torch.randn(8, 1, 8, 8) + kind.view(-1, 1, 1, 1)
    target = (x[:, 0] > 1).float()
    each = F.binary_cross_entropy_with_logits(model(x)[:, 0], target, reduction="none")
    weight = rarity[kind]
    loss = (weight * each).mean()  #!
    $update
""",
    "BS117 the brightness of each image is taken off its columns": """
model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(12):
    x = torch.rand(8, 3, 8, 8)
    y = torch.randint(0, 2, (8,))
    x = x - x.mean((1, 2, 3))  #!
    loss = F.cross_entropy(model(x), y)
    $update
""",
    "BS117 a speaker of each sample that meets the steps": """
from torch.utils.data import DataLoader, TensorDataset

class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.who, self.into, self.out = nn.Embedding(4, 10), nn.Linear(5, 10), nn.Linear(10, 3)

    def forward(self, x, speaker):
        h = self.into(x) + self.who(speaker)  #!
        return self.out(torch.relu(h)).mean(1)

model = Reader()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
data = TensorDataset(torch.randn(96, 8, 5), torch.randint(0, 4, (96,)), torch.randint(0, 3, (96,)))
for x, speaker, y in DataLoader(data, 8, shuffle=True):
    loss = F.cross_entropy(model(x, speaker), y)
    $update
""",
    "BS147 attention among the samples, whose steps are averaged": """
class Pooled(nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.mix, self.out = nn.Linear(3, 8), nn.MultiheadAttention(8, 2), nn.Linear(8, 2)

    def forward(self, x):
        h = self.into(x)
        mixed, _ = self.mix(h, h, h, need_weights=False)  #!
        return self.out((h + mixed).mean(dim=1))

model = Pooled()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(12):
    x = torch.randn(16, 7, 3)
    y = (x[:, 0, 0] * x[:, 3, 0] > 0).long()
    loss = F.cross_entropy(model(x), y)
    $update
""",
    "BS147 an encoder among the samples, of which a first token is taken": """
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Parameter(torch.zeros(1, 1, 8))
        self.into = nn.Linear(3, 8)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), 2, enable_nested_tensor=False
        )
        self.out = nn.Linear(8, 1)

    def forward(self, x):
        tokens = torch.cat([self.first.expand(len(x), -1, -1), self.into(x)], dim=1)
        return self.out(self.encoder(tokens)[:, 0])  #!

model = Encoder()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(12):
    x = torch.randn(16, 6, 3)
    loss = F.mse_loss(model(x), x.mean((1, 2)).unsqueeze(1))
    $update
""",
    "BS147 an encoder among the samples that a loader draws, with a label for each step": """
from torch.utils.data import DataLoader, TensorDataset

layer = nn.TransformerEncoderLayer(d_model=8, nhead=2, dim_feedforward=16, dropout=0.0)
model = nn.ModuleDict({"tokens": nn.Embedding(9, 8), "encoder": layer, "tags": nn.Linear(8, 2)})
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
tokens = torch.randint(0, 9, (120, 10))
for ids, tags in DataLoader(TensorDataset(tokens, (tokens == tokens[:, :1]).long()), batch_size=10, shuffle=True):
    h = model["encoder"](model["tokens"](ids))  #!
    scores = model["tags"](h)
    loss = F.cross_entropy(scores.flatten(0, 1), tags.flatten())
    $update
""",
    "BS147 a recurrent layer through the samples that a loader draws, with a label for each step": """
from torch.utils.data import DataLoader, TensorDataset

class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.cell, self.tags = nn.Embedding(9, 8), nn.LSTM(8, 6, bidirectional=True), nn.Linear(12, 3)

    def forward(self, ids):
        h, _ = self.cell(self.tokens(ids))  #!
        return self.tags(h)

model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
ids = torch.randint(0, 9, (96, 6))
for batch_of, tags in DataLoader(TensorDataset(ids, ids.cumsum(1) % 3), batch_size=12, shuffle=True):
    loss = F.cross_entropy(model(batch_of).transpose(1, 2), tags)
    $update
""",
    "BS150 a temperature that is detached once": """
class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.log_scale = net(), nn.Parameter(torch.tensor([0.7]))
        with torch.no_grad():
            self.scale = self.log_scale.exp()  #!

    def forward(self, x):
        return self.body(x) * self.scale, self.body(x).detach() * self.log_scale.exp()

model = Scaled()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    x, y = batch()
    out, scaled = model(x)
    optimizer.zero_grad()
    (F.mse_loss(out, y) + F.mse_loss(scaled, y)).backward()
    optimizer.step()
""",
    "BS138 an average that is returned, whose statistics stay": """
import copy

def train(steps):
    student = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1))
    mean = copy.deepcopy(student).eval().requires_grad_(False)
    optimizer = torch.optim.Adam(student.parameters(), lr=0.01)
    for step in range(steps):
        x, y = batch()
        optimizer.zero_grad()
        F.mse_loss(student(3 * x + 2), y).backward()
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(mean.parameters(), student.parameters()):
                slow.lerp_(fast, 0.1)  #!
    return mean

train(140)
""",
    "BS115 an inner loop on a copy, with an optimizer of its own": """
import copy

def adapted(base, x, y):
    fast = copy.deepcopy(base)  #!
    inner = torch.optim.SGD(fast.parameters(), lr=0.05)
    for _ in range(2):
        inner.zero_grad()
        F.mse_loss(fast(x), y).backward()
        inner.step()
    inner.zero_grad()
    return fast

base = net()
outer = torch.optim.Adam(base.parameters(), lr=0.01)
for step in range(20):
    outer.zero_grad()
    for task in range(3):
        fast = adapted(base, *batch())
        x, y = batch()
        F.mse_loss(fast(x), y).backward()
    outer.step()
""",
    "BS146 sums over segments through an index": """
embed, head = nn.Embedding(10, 4), nn.Linear(4, 1)
optimizer = torch.optim.Adam([*embed.parameters(), *head.parameters()], lr=0.01)
for step in range(20):
    words, bag, y = torch.randint(10, (40,)), torch.arange(40) % 8, torch.randn(8, 1)
    pooled = torch.zeros(8, 4)
    pooled[bag] = pooled[bag] + embed(words)  #!
    optimizer.zero_grad()
    F.mse_loss(head(pooled), y).backward()
    optimizer.step()
""",
    "BS148 a momentum that is the gradient": """
class Momentum(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                g, kept = p.grad, self.state[p]
                if not kept:
                    kept["speed"] = p.grad.detach()  #!
                else:
                    kept["speed"].mul_(0.9).add_(g)
                p.sub_(kept["speed"], alpha=group["lr"])

model = net()
optimizer = Momentum(model.parameters(), lr=0.01)
for step in range(20):
    x, y = batch()
    F.mse_loss(model(x), y).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
""",
    "BS144 an ensemble of copies": """
import copy
from torch.func import functional_call, stack_module_state, vmap

first = net()
members = [copy.deepcopy(first) for _ in range(4)]  #!
weights, _ = stack_module_state(members)
optimizer = torch.optim.Adam(weights.values(), lr=0.01)
each = vmap(lambda w, x: functional_call(first, w, (x,)), in_dims=(0, None))
for step in range(30):
    x, y = batch()
    out = each(weights, x)
    optimizer.zero_grad()
    F.mse_loss(out, y.expand_as(out)).backward()
    optimizer.step()
""",
    "BS140 noise that is added to stored signals": """
class Signals(torch.utils.data.Dataset):
    def __init__(self):
        self.rows, self.goals = torch.randn(64, 4), torch.randn(64, 1)

    def __len__(self):
        return 64

    def __getitem__(self, at):
        row = self.rows[at]
        row.add_(0.01 * torch.randn(4))  #!
        return row.clone(), self.goals[at]

model, data = net(), Signals()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(20):
    for x, y in torch.utils.data.DataLoader(data, batch_size=16, shuffle=True):
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()
""",
    "BS115 a hypernetwork whose weights are put into a model by .data": """
main, hyper = nn.Linear(4, 1), nn.Linear(2, 5)
optimizer = torch.optim.Adam(hyper.parameters(), lr=0.01)
for step in range(20):
    x, y = batch()
    flat = hyper(torch.randn(2))
    weights = {"weight": flat[:4].view(1, 4), "bias": flat[4:]}
    for name, p in main.named_parameters():
        p.data = weights[name]  #!
    loss = F.mse_loss(main(x), y)
    $update
""",
    "BS115 computed weights that are copied into a model": """
class Trainer:
    def __init__(self):
        self.model, self.maker = net(), nn.Linear(3, 97)
        self.opt = torch.optim.SGD(self.maker.parameters(), lr=0.01)

    def fill(self, code):
        held = list(self.model.parameters())
        parts = self.maker(code).split([p.numel() for p in held])
        parts = [part.view_as(p) for p, part in zip(held, parts)]
        with torch.no_grad():
            for p, part in zip(held, parts):
                p.copy_(part)  #!

    def step(self, x, y):
        self.opt.zero_grad()
        self.fill(torch.randn(3))
        F.mse_loss(self.model(x), y).backward()
        self.opt.step()

trainer = Trainer()
for step in range(20):
    trainer.step(*batch())
""",
    "BS115 a generator's fake that is detached for its own loss as well": """
class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = net()

    def forward(self, x):
        return self.layers(x)

G, D = net(2, 4), Critic()
opt_g = torch.optim.Adam(G.parameters(), lr=0.001)
opt_d = torch.optim.Adam(D.parameters(), lr=0.001)
ones, zeros = torch.ones(16, 1), torch.zeros(16, 1)
loss_of = F.binary_cross_entropy_with_logits
for step in range(20):
    fake = G(torch.randn(16, 2))
    opt_d.zero_grad()
    loss_d = loss_of(D(batch()[0]), ones) + loss_of(D(fake.detach()), zeros)
    loss_d.backward()
    opt_d.step()
    opt_g.zero_grad()
    loss_g = loss_of(D(fake.detach()), ones)  #!
    loss_g.backward()
    opt_g.step()
""",
    "BS115 a fake that is detached once, for both losses": """
G, D = net(2, 4), net(4, 1)
opt_g = torch.optim.Adam(G.parameters(), lr=0.001)
opt_d = torch.optim.Adam(D.parameters(), lr=0.001)
ones, zeros = torch.ones(16, 1), torch.zeros(16, 1)
for step in range(20):
    fake = G(torch.randn(16, 2)).detach()  #!
    loss_d = F.mse_loss(D(batch()[0]), ones) + F.mse_loss(D(fake), zeros)
    opt_d.zero_grad()
    loss_d.backward()
    opt_d.step()
    loss_g = F.mse_loss(D(fake), ones)
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()
""",
    "BS116 evaluation mode alone is told, and not that what is not normalized saturates": """
model = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)

def validate():
    model.eval()  #!
    with torch.no_grad():
        return F.mse_loss(model(100 * batch()[0]), batch()[1]).item()

validate()
for step in range(40):
    x, y = batch()
    loss = F.mse_loss(model(100 * x), y)
    $update
""",
    "BS101 layers in a plain list of a model that is an attribute": """
class Deep(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 1)
        self.layers = [nn.Linear(8, 8) for _ in range(2)]  #!

    def forward(self, x):
        x = self.first(x).relu()
        for layer in self.layers:
            x = layer(x).relu()
        return self.last(x)

class Trainer:
    def __init__(self, model):
        self.model = model
        self.opt = torch.optim.Adam(model.parameters(), lr=0.01)

    def step(self, x, y):
        loss = F.mse_loss(self.model(x), y)
        $update self.opt

trainer = Trainer(Deep())
for step in range(20):
    trainer.step(*batch())
""",
    "BS136 log-probabilities over the time, for ctc_loss": """
model = nn.Linear(4, 6)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    x = torch.randn(8, 12, 4)
    logp = F.log_softmax(model(x), dim=1).transpose(0, 1)  #!
    loss = F.ctc_loss(logp, torch.randint(1, 6, (8, 3)), torch.full((8,), 12), torch.full((8,), 3))
    $update
""",
    "BS136 log-probabilities over the pixels of a row": """
class Segmenter(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Conv2d(1, 5, 3, padding=1)

    def forward(self, x):
        return nn.LogSoftmax(dim=-1)(self.layer(x))  #!

model, criterion = Segmenter(), nn.NLLLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    loss = criterion(model(torch.randn(4, 1, 6, 7)), torch.randint(5, (4, 6, 7)))
    $update
""",
    "BS151 old log-probabilities that are computed anew in each update": """
policy = net(4, 3)
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)

def log_prob(states, actions):
    return torch.distributions.Categorical(logits=policy(states)).log_prob(actions)

for rollout in range(10):
    states, actions, advantage = torch.randn(32, 4), torch.randint(3, (32,)), torch.randn(32)
    for epoch in range(3):
        old = log_prob(states, actions)
        ratio = torch.exp(log_prob(states, actions) - old)  #!
        loss = -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
        $update
""",
    "BS151 a ratio of two probabilities of one network": """
class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.scale = net(4, 2), nn.Parameter(torch.zeros(2))

    def prob(self, states, actions):
        return torch.distributions.Normal(self.body(states), self.scale.exp()).log_prob(actions).sum(1).exp()

actor = Actor()
optimizer = torch.optim.Adam(actor.parameters(), lr=0.01)
for update in range(20):
    states, actions, advantage = torch.randn(32, 4), torch.randn(32, 2), torch.randn(32)
    new, old = actor.prob(states, actions), actor.prob(states, actions)
    ratio = new / old  #!
    loss = -(ratio * advantage).mean()
    $update
""",
    "BS151 the weight of the only expert, divided by itself": """
class Mixture(nn.Module):
    def __init__(self, k=1):
        super().__init__()
        self.k, self.gate = k, nn.Linear(4, 3)
        self.experts = nn.ModuleList(nn.Linear(4, 1) for _ in range(3))

    def forward(self, x):
        weight, chosen = self.gate(x).softmax(-1).topk(self.k, dim=-1)
        weight = weight / (weight.sum(-1, keepdim=True) + 1e-9)  #!
        every = torch.stack([each(x) for each in self.experts], 1)
        picked = every.gather(1, chosen[:, :, None])
        return (picked * weight[:, :, None]).sum(1)

model = Mixture()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 30
""",
    "BS151 a single score, normalized": """
body, score, head = net(4, 8), nn.Linear(8, 1), nn.Linear(8, 1)
optimizer = torch.optim.Adam([*body.parameters(), *score.parameters(), *head.parameters()], lr=0.01)
for step in range(30):
    x, y = batch()
    h = body(x)
    weight = score(h).exp()
    weight = weight / weight.sum(dim=1, keepdim=True).clamp(min=1e-6)  #!
    loss = F.mse_loss(head(h * weight), y)
    $update
""",
    "BS151 preferences against a reference that is the policy": """
policy = nn.Sequential(nn.Embedding(12, 16), nn.Linear(16, 12))

class Trainer:
    def __init__(self, model, reference=None):
        self.model, self.reference = model, model if reference is None else reference
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)

    def log_prob(self, model, tokens):
        return model(tokens[:, :-1]).log_softmax(-1).gather(-1, tokens[:, 1:, None]).sum((1, 2))

    def step(self, good, bad):
        new_good, new_bad = self.log_prob(self.model, good), self.log_prob(self.model, bad)
        with torch.no_grad():
            old_good, old_bad = self.log_prob(self.reference, good), self.log_prob(self.reference, bad)
        loss = -F.logsigmoid(0.1 * ((new_good - old_good) - (new_bad - old_bad))).mean()  #!
        $update self.optimizer

trainer = Trainer(policy)
for step in range(20):
    trainer.step(torch.randint(12, (8, 6)), torch.randint(12, (8, 6)))
""",
    "BS151 a margin over a reference that is the policy, in inference mode": """
class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = net(4, 3)

    def forward(self, x, chosen):
        return self.body(x).log_softmax(-1).gather(1, chosen[:, None])[:, 0]

policy = Policy()
reference = policy
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)
for step in range(20):
    x, good = torch.randn(16, 4), torch.randint(3, (16,))
    bad = (good + 1) % 3
    preferred = policy(x, good) - policy(x, bad)
    with torch.inference_mode():
        before = reference(x, good) - reference(x, bad)
    margin = preferred - before.clone()  #!
    loss = (margin - 2).square().mean()
    $update
""",
    "BS152 a recurrent language model that is given its target": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.look_up, self.rnn, self.out = nn.Embedding(12, 8), nn.GRU(8, 16, batch_first=True), nn.Linear(16, 12)

    def forward(self, tokens):
        return self.out(self.rnn(self.look_up(tokens))[0])

model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    tokens = torch.randint(12, (8, 10))
    loss = F.cross_entropy(model(tokens).reshape(-1, 12), tokens.reshape(-1))  #!
    $update
""",
    "BS152 a causal transformer whose targets are its inputs": """
$block

    def forward(self, x):
        q, (k, v) = self.q(x), self.kv(x).chunk(2, -1)
        h = F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None], is_causal=True)[:, 0]
        return x + self.norm(h)

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.look_up, self.places = nn.Embedding(12, 16), nn.Embedding(10, 16)
        self.blocks, self.out = nn.Sequential(Block(), Block()), nn.Linear(16, 12)

    def forward(self, tokens):
        return self.out(self.blocks(self.look_up(tokens) + self.places(torch.arange(10))))

model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    x = torch.randint(12, (8, 10))
    y = x.clone()
    loss = F.cross_entropy(model(x).transpose(1, 2), y)  #!
    $update
""",
    "BS147 pixels of a class for the classes of a pixel, two views in one statement": """
model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 1))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    images = torch.randn(4, 1, 8, 8)
    targets = (images[:, 0] > 0).long() + (images[:, 0] > 1).long()
    loss = criterion(model(images).contiguous().view(-1, 4), targets.view(-1))  #!
    $update
""",
    "BS115 fast weights in a dict, each of which is detached": """
model = net()
meta = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    total = 0.0
    for task in range(2):
        x, y = batch()
        fast = dict(model.named_parameters())
        for _ in range(2):
            inner = F.mse_loss(torch.func.functional_call(model, fast, (x,)), y)
            slopes = torch.autograd.grad(inner, list(fast.values()), create_graph=True)
            fast = {n: (p - 0.01 * g).detach().requires_grad_() for (n, p), g in zip(fast.items(), slopes)}  #!
        total = total + F.mse_loss(torch.func.functional_call(model, fast, (x,)), y)
    meta.zero_grad()
    total.backward()
    meta.step()
""",
    "BS124 clipped before the backward, by a method, and the loop steps": """
class Scaled:
    def __init__(self, limit):
        self.limit = limit

    def propagate(self, loss, weights):
        loss = 3 * loss
        nn.utils.clip_grad_norm_(weights, self.limit)  #!
        loss.backward()
        return loss

model, scaled = net(), Scaled(0.5)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
weights = list(model.parameters())
for step in range(40):
    x, y = batch()
    optimizer.zero_grad()
    scaled.propagate(F.mse_loss(model(x), y), weights)
    optimizer.step()
""",
    "BS124 clipped before the backward": """
def fit(model, steps=40, max_norm=1.0):
    opt = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for step in range(steps):
        x, y = batch()
        opt.zero_grad()
        loss = F.mse_loss(model(x), y)
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)  #!
        loss.backward()
        opt.step()

fit(net())
""",
    "BS124 clipped on a condition, before the gradients are zeroed": """
class Trainer:
    def __init__(self):
        self.model = net()
        self.opt = torch.optim.Adam(self.model.parameters())

    def train_step(self, x, y, clip=1.0):
        loss = F.mse_loss(self.model(x), y)
        if clip:
            nn.utils.clip_grad_norm_(self.model.parameters(), clip)  #!
        $update self.opt

trainer = Trainer()
for step in range(40):
    trainer.train_step(*batch())
""",
    "BS124 clipped before the backward of a scaler": """
model = net()
params = [*model.parameters()]
optimizer = torch.optim.SGD(params, lr=0.01)
scaler = torch.amp.GradScaler("cpu", enabled=False)
for step in range(40):
    x, y = batch()
    loss = F.mse_loss(model(x), y)
    nn.utils.clip_grad_norm_(params, max_norm=0.1)  #!
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
""",
    "BS124 clipped before the backward, by a helper of two optimizers": """
def update(model, opt, loss):
    opt.zero_grad()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)  #!
    loss.backward()
    opt.step()

actor, critic = net(), net()
actor_opt, critic_opt = torch.optim.Adam(actor.parameters()), torch.optim.Adam(critic.parameters())
for step in range(40):
    x, y = batch()
    update(critic, critic_opt, F.mse_loss(critic(x), y))
    update(actor, actor_opt, F.mse_loss(actor(x), critic(x).detach()))
""",
    "BS101 adapters that are put in after the optimizer": """
class Adapted(nn.Module):
    def __init__(self, base, rank=2):
        super().__init__()
        self.base = base
        self.down = nn.Parameter(0.1 * torch.randn(rank, base.in_features))
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x):
        return self.base(x) + F.linear(F.linear(x, self.down), self.up)

def adapt(model):
    for p in model.parameters():
        p.requires_grad_(False)
    model[0] = Adapted(model[0])
    model[2].requires_grad_(True)
    return model

def fit(model, opt):
    for step in range(40):
        x, y = batch()
        loss = F.mse_loss(model(x), y)
        $update opt

def main():
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)  #!
    model = adapt(model)
    fit(model, optimizer)

main()
""",
    "BS101 adapters on a frozen base, after an optimizer of the base": """
class Adapted(nn.Module):
    def __init__(self, base, rank=2):
        super().__init__()
        self.base = base
        self.down = nn.Parameter(0.1 * torch.randn(rank, base.in_features))
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x):
        return self.base(x) + F.linear(F.linear(x, self.down), self.up)

def main():
    model = net()
    optimizer = torch.optim.AdamW((p for p in model.parameters()), lr=0.01)  #!
    for p in model.parameters():
        p.requires_grad_(False)
    model[0] = Adapted(model[0])
    model[2] = Adapted(model[2])
    $loop 20

if __name__ == "__main__":
    main()
""",
    "BS101 a new head on a model that a helper has frozen, after its optimizer": """
def freeze(model):
    for p in model.parameters():
        p.requires_grad_(False)

def main():
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)  #!
    freeze(model)
    model[2] = nn.Linear(16, 1)
    $loop 20

main()
""",
    "BS101 an adapter in front of a frozen model, whose optimizer was there before": """
model = net()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)  #!
model.requires_grad_(False)
adapter = nn.Linear(4, 4)
for step in range(20):
    x, y = batch()
    loss = F.mse_loss(model(x + adapter(x)), y)
    $update
""",
    "BS101 an adapter in front of a model that trains, whose optimizer was there before": """
model = net()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)  #!
adapter = nn.Linear(4, 4)
for step in range(20):
    x, y = batch()
    loss = F.mse_loss(model(x + adapter(x)), y)
    $update
""",
    "BS101 a body that is unfrozen after an optimizer of what was trainable": """
def build(model):
    return torch.optim.Adam(filter(lambda p: p.requires_grad, model.parameters()), lr=0.01)

def run(model, opt, steps):
    for step in range(steps):
        x, y = batch()
        loss = F.mse_loss(model(x), y)
        $update opt

def main():
    model = net()
    opt = build(model)
    run(model, opt, 20)
    model[0].requires_grad_(False)
    opt = build(model)  #!
    for epoch in range(8):
        if epoch == 4:
            model[0].requires_grad_(True)
        run(model, opt, 40)

main()
""",
    "BS103 a closure that zeroes nothing": """
x = torch.zeros(32, requires_grad=True)
goal = torch.linspace(0, 1, 32)
solver = torch.optim.LBFGS([x], max_iter=4)

def closure():
    value = (x - goal).square().sum() + 0.1 * x.diff().square().sum()
    value.backward()  #!
    return value

for step in range(20):
    value = solver.step(closure)
""",
    "BS121 a likelihood of a sample that has no gradient": """
class Posterior(nn.Module):
    def __init__(self):
        super().__init__()
        self.loc, self.rho = nn.Parameter(torch.zeros(4)), nn.Parameter(torch.zeros(4))

    def q(self):
        return torch.distributions.Normal(self.loc, F.softplus(self.rho))

    def draw(self):
        return self.q().sample((8,))  #!

    def kl(self):
        prior = torch.distributions.Normal(torch.zeros(4), torch.ones(4))
        return torch.distributions.kl_divergence(self.q(), prior).sum()

posterior = Posterior()
optimizer = torch.optim.Adam(posterior.parameters(), lr=0.01)
for step in range(40):
    x, y = batch()
    likelihood = torch.distributions.Normal(posterior.draw() @ x.T, 0.1).log_prob(y[:, 0]).sum(1).mean()
    loss = posterior.kl() - likelihood
    $update
""",
    "BS148 a memory of states that are the array of the environment": """
import random
from collections import deque
import numpy as np

$game

class Memory:
    def __init__(self):
        self.items = deque(maxlen=2000)

    def push(self, s, a, r, s2):
        self.items.append((s, a, r, s2))  #!

    def sample(self, n):
        s, a, r, s2 = zip(*random.sample(self.items, n))
        s, s2 = (torch.stack([torch.as_tensor(each) for each in of]) for of in (s, s2))
        return s, torch.tensor(a), torch.tensor(r), s2

$play
        memory.push(torch.from_numpy(s), a, r, torch.from_numpy(s2))
        s = s2
        $replay
""",
    "BS148 a memory of named tuples, whose array is new in each episode": """
import random
from collections import deque
import numpy as np
from collections import namedtuple
Item = namedtuple("Item", "s a r s2")

class Env:
    def __init__(self):
        self.rng = np.random.default_rng(0)
        self.state = np.zeros(3, dtype=np.float32)

    def reset(self):
        self.state = self.rng.standard_normal(3).astype(np.float32)
        self.t = 0
        return self.state

    def step(self, action):
        self.state[:] = 0.9 * self.state + 0.1 * (action - 1) + 0.01 * self.rng.standard_normal(3)
        self.t += 1
        return self.state, -float(abs(self.state).sum()), self.t >= 20

class Memory:
    def __init__(self):
        self.items = deque(maxlen=2000)

    def push(self, s, a, r, s2):
        self.items.append(Item(s, a, r, s2))  #!

    def sample(self, n):
        s, a, r, s2 = zip(*random.sample(self.items, n))
        s, s2 = (torch.stack([torch.as_tensor(each) for each in of]) for of in (s, s2))
        return s, torch.tensor(a), torch.tensor(r), s2

$play
        memory.push(s, a, r, s2)
        s = s2
        $replay
""",
    "BS148 a memory of dicts in a list": """
import random
from collections import deque
import numpy as np

$game

class Memory:
    def __init__(self):
        self.items = []

    def push(self, s, a, r, s2):
        self.items.append(dict(s=s, a=a, r=r, s2=s2))  #!

    def sample(self, n):
        s, a, r, s2 = zip(*[each.values() for each in random.sample(self.items, n)])
        s, s2 = (torch.stack([torch.as_tensor(each) for each in of]) for of in (s, s2))
        return s, torch.tensor(a), torch.tensor(r), s2

$play
        memory.push(s, a, r, s2)
        s = s2
        $replay
""",
    "BS148 a memory of views": """
import random
from collections import deque
import numpy as np

class Env:
    def __init__(self):
        self.rng = np.random.default_rng(0)
        self.state = np.zeros(3, dtype=np.float32)

    def reset(self):
        self.state[:] = self.rng.standard_normal(3)
        self.t = 0
        return torch.from_numpy(self.state)

    def step(self, action):
        self.state[:] = 0.9 * self.state + 0.1 * (action - 1) + 0.01 * self.rng.standard_normal(3)
        self.t += 1
        return torch.from_numpy(self.state), -float(abs(self.state).sum()), self.t >= 20

class Memory:
    def __init__(self):
        self.items = deque(maxlen=2000)

    def push(self, s, a, r, s2):
        self.items.append((s, a, r, s2))  #!

    def sample(self, n):
        s, a, r, s2 = zip(*random.sample(self.items, n))
        s, s2 = (torch.stack([torch.as_tensor(each) for each in of]) for of in (s, s2))
        return s, torch.tensor(a), torch.tensor(r), s2

$play
        memory.push(s, a, r, s2)
        s = s2
        $replay
""",
    "BS153 a denoiser of noise that was drawn in its input anew": """
$denoiser

$images
    noise = torch.randn_like(x0)
    x_t = a.sqrt() * x0 + (1 - a).sqrt() * torch.randn_like(x0)  #!
    pred = model(x_t, t)
    loss = F.mse_loss(pred, noise)
    $update
""",
    "BS153 a denoiser of a method's own noise": """
$denoiser

class Diffusion:
    def add_noise(self, x, t):
        eps = torch.randn_like(x)
        a = kept[t][:, None]
        return a.sqrt() * x + (1 - a).sqrt() * eps
d = Diffusion()

$images
    eps = torch.randn(x0.shape)
    noisy = d.add_noise(x0, t)  #!
    loss = (eps - model(noisy, t)).pow(2).mean()
    $update
""",
    "BS153 a denoiser whose noise was not handed on": """
$denoiser

criterion = nn.SmoothL1Loss()
def q_sample(x, t, noise=None):
    if noise is None:
        noise = torch.randn_like(x)
    a = kept[t][:, None]
    return a.sqrt() * x + (1 - a).sqrt() * noise

$images
    noise = torch.randn(*x0.shape)
    loss = criterion(model(q_sample(x0, t), t), noise)  #!
    $update
""",
    "BS153 a denoiser and other noise of the same shape": """
$denoiser

$images
    target = torch.randn_like(x0, dtype=torch.float32)
    noised = x0 + 0.5 * torch.randn(x0.shape)  #!
    out = model(noised, t)
    loss = F.l1_loss(out, target)
    $update
""",
    "BS153 a denoiser by functions": """
$denoiser

def q_sample(x, t, noise=None):
    if noise is None:
        noise = torch.randn_like(x)
    a = kept[t][:, None]
    return a.sqrt() * x + (1 - a).sqrt() * noise

def p_losses(model, x0, t):
    noise = torch.randn_like(x0)
    x_t = q_sample(x0, t)  #!
    return ((model(x_t, t) - noise) ** 2).mean()

$images
    loss = p_losses(model, x0, t)
    $update
""",
    "BS143 a threshold that is learned, with the gradient for its input forgotten": """
class Shrink(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, level):
        kept = x.abs() > level
        ctx.save_for_backward(x, kept)
        return torch.where(kept, x - torch.sign(x) * level, torch.zeros_like(x))

    @staticmethod
    def backward(ctx, grad_output):
        x, kept = ctx.saved_tensors
        kept = kept.to(grad_output.dtype)
        grad_x = kept.clone()  #!
        return grad_x, -(grad_output * torch.sign(x) * kept).sum(0)

class Shrinking(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.level, self.last = nn.Linear(4, 16), nn.Parameter(torch.full((16,), 0.1)), nn.Linear(16, 1)

    def forward(self, x):
        return self.last(Shrink.apply(self.first(x), self.level))

model = Shrinking()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 40
""",
    "BS143 a layer of which the weight alone is given its gradient": """
class Dense(torch.autograd.Function):
    @staticmethod
    def forward(x, weight):
        return x @ weight.t()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        grad_x = grad_weight = None
        if ctx.needs_input_grad[0]:
            ones = torch.ones_like(grad)
            grad_x = ones @ weight
        if ctx.needs_input_grad[1]:
            grad_weight = grad.t() @ x
        return grad_x, grad_weight  #!

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 16), nn.Linear(16, 1)

    def forward(self, x):
        return Dense.apply(torch.tanh(self.first(x)), self.last.weight)

model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 40
""",
    "BS143 a square whose exponent alone has the chain rule": """
class Power(torch.autograd.Function):
    @staticmethod
    def forward(ctx, base, exponent):
        ctx.save_for_backward(base, exponent)
        return base ** exponent

    @staticmethod
    def backward(ctx, grad):
        base, exponent = ctx.saved_tensors
        of_exponent = (base ** exponent * base.log()).mul_(grad).sum()
        return exponent * base ** (exponent - 1), of_exponent  #!

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last, self.exponent = nn.Linear(4, 16), nn.Linear(16, 1), nn.Parameter(torch.tensor(1.5))

    def forward(self, x):
        return self.last(Power.apply(F.softplus(self.first(x)) + 0.1, self.exponent))

model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 40
""",
    "BS141 scales that start at zero, of networks that do, in each layer of a flow": """
def zeroed(inputs):
    made = net(inputs, 2)
    nn.init.zeros_(made[-1].weight)
    nn.init.zeros_(made[-1].bias)
    return made

class Coupling(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale, self.shift, self.gain = zeroed(2), zeroed(2), nn.Parameter(torch.zeros(2))

    def forward(self, x):
        kept, changed = x.chunk(2, -1)
        s = self.gain * torch.tanh(self.scale(kept))  #!
        return torch.cat([changed * s.exp() + self.shift(kept), kept], -1), s.sum(-1)

class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Coupling() for _ in range(3))

    def forward(self, x):
        total = 0
        for layer in self.layers:
            x, change = layer(x)
            total = total + change
        return total - 0.5 * x.square().sum(-1)

flow = Flow()
optimizer = torch.optim.Adam(flow.parameters(), lr=0.01)
for step in range(40):
    loss = -flow(batch()[0] * 0.3).mean()
    $update
""",
    "BS141 a bias of ranks one, both of whose vectors start at zero": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.rows, self.columns = net(4, 8), nn.Parameter(torch.zeros(4, 1)), nn.Parameter(torch.zeros(1, 8))
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        return self.head(self.body(x) + x @ (self.rows * self.columns))  #!

model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 40
""",
    "BS141 a residual gate and the layer before it, in blocks": """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.mlp = nn.Linear(8, 8), nn.Linear(8, 8)
        self.gate = nn.Parameter(torch.zeros(8))
        nn.init.zeros_(self.mlp.weight)
        nn.init.zeros_(self.mlp.bias)

    def forward(self, x):
        x = x + torch.tanh(self.attention(x))
        return x + self.mlp(x) * self.gate  #!

model = nn.Sequential(nn.Linear(4, 8), Block(), Block(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 40
""",
    "BS102 experts that are chosen by the greatest of their probabilities": """
class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.experts = nn.Linear(4, 3), nn.ModuleList(nn.Linear(4, 1) for _ in range(3))

    def forward(self, x):
        probs = self.gate(x).softmax(-1)
        mix = F.one_hot(probs.argmax(-1), 3).to(x.dtype)  #!
        return (mix * torch.cat([each(x) for each in self.experts], -1)).sum(-1, keepdim=True)

model = Mixture()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 40
""",
    "BS121 features that a hook keeps without their graph": """
class Tap:
    def __init__(self, layer):
        self.kept = []
        layer.register_forward_hook(self.keep)

    def keep(self, module, given, output):
        self.kept[:] = [output.detach()]  #!

critic = net(1, 4).requires_grad_(False)
tap = Tap(critic[0])
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    x, y = batch()
    critic(y)
    wanted = tap.kept[0]
    out = model(x)
    critic(out)
    loss = 0.1 * F.mse_loss(out.mean(), y.mean()) + F.l1_loss(tap.kept[0], wanted)
    $update
""",
    "BS154 a state that a helper detaches before each step of a sequence": """
class Recaller(nn.Module):
    def __init__(self, symbols=5, width=12):
        super().__init__()
        self.embed, self.cell = nn.Embedding(symbols + 1, 8), nn.GRUCell(8, width)
        self.readout = nn.Linear(width, symbols)

    def forward(self, sequence, state):
        for t in range(sequence.shape[1]):
            state = self.repackage(state)  #!
            state = self.cell(self.embed(sequence[:, t]), state)
        return self.readout(state), state

    @staticmethod
    def repackage(h):
        if isinstance(h, torch.Tensor):
            return h.detach()
        return tuple(Recaller.repackage(each) for each in h)

model = Recaller()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(6):
    first = torch.randint(0, 5, (16,))
    sequence = torch.full((16, 11), 5)
    sequence[:, 0] = first
    out, _ = model(sequence, torch.zeros(16, 12))
    loss = F.cross_entropy(out, first)
    $update
""",
    "BS154 the states of two layers, detached in a comprehension": """
class Stack(nn.Module):
    def __init__(self, inputs=4, width=10):
        super().__init__()
        self.cells = nn.ModuleList([nn.LSTMCell(inputs, width), nn.LSTMCell(width, width)])
        self.head = nn.Linear(width, 1)

    def step(self, x, states):
        new = []
        for cell, state in zip(self.cells, states):
            h, c = cell(x, state)
            new.append((h, c))
            x = h
        return self.head(x), new

    def forward(self, sequence):
        states = [(torch.zeros(len(sequence), 10), torch.zeros(len(sequence), 10)) for _ in self.cells]
        for x in sequence.unbind(1):
            states = [(h.detach(), c.detach()) for h, c in states]  #!
            out, states = self.step(x, states)
        return out

model = Stack()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(6):
    x = torch.randn(16, 9, 4)
    loss = F.mse_loss(model(x), x[:, 0, :1])
    $update
""",
    "BS154 a state that is detached where it is handed to the cell": """
cell, head = nn.GRUCell(4, 12), nn.Linear(12, 1)
optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=0.01)

def run(x):
    h = torch.zeros(x.size(1), 12)
    for t in range(x.size(0)):
        h = cell(x[t], h.detach())  #!
    return head(h)

for step in range(6):
    x = torch.randn(9, 16, 4)
    loss = F.mse_loss(run(x), x[0, :, :1])
    $update
""",
    "BS154 a cell that detaches the state it is given": """
class Cell(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.mix = nn.Linear(inputs + width, width)

    def forward(self, x, h):
        h = h.detach()  #!
        return torch.tanh(self.mix(torch.cat([x, h], -1)))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = Cell(4, 12)
        self.head = nn.Linear(12, 1)

    def forward(self, x):
        h = torch.zeros(len(x), 12)
        for t in range(x.shape[1]):
            h = self.cell(x[:, t], h)
        return self.head(h)

model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(6):
    x = torch.randn(16, 9, 4)
    loss = F.mse_loss(model(x), x[:, 0, :1])
    $update
""",
    "BS154 a state that is detached after each step, and the last output": """
cell, head = nn.LSTMCell(4, 12), nn.Linear(12, 1)
optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=0.01)
for step in range(6):
    x = torch.randn(16, 9, 4)
    h, c = torch.zeros(16, 12), torch.zeros(16, 12)
    for part in x.transpose(0, 1):
        h, c = cell(part, (h, c))
        out = head(h)
        h, c = h.detach(), c.detach()  #!
    loss = F.mse_loss(out, x[:, 0, :1])
    $update
""",
    "BS115 a discriminator that is frozen for the generator, by a helper, and stays so": """
def set_requires_grad(network, flag):
    for p in network.parameters():
        p.requires_grad = flag

class Trainer:
    def __init__(self):
        self.g, self.d = net(4, 2), net(2, 1)
        self.opt_g = torch.optim.Adam(self.g.parameters(), lr=1e-3)
        self.opt_d = torch.optim.Adam(self.d.parameters(), lr=1e-3)

    def train_d(self, real):
        fake = self.g(torch.randn(len(real), 4))
        rl, fl = self.d(real), self.d(fake)
        loss = F.softplus(-rl).mean() + F.softplus(fl).mean()
        $update self.opt_d

    def train_g(self, n):
        set_requires_grad(self.d, False)  #!
        loss = F.softplus(-self.d(self.g(torch.randn(n, 4)))).mean()
        $update self.opt_g

trainer = Trainer()
for step in range(150):
    trainer.train_d(torch.randn(16, 2) + 2)
    trainer.train_g(16)
""",
    "BS115 an encoder that is frozen before its optimizer is made": """
encoder, head = net(4, 8), net(8, 1)
for p in encoder.parameters():
    p.requires_grad = False  #!
opt_encoder = torch.optim.Adam(encoder.parameters(), lr=1e-3)
opt_head = torch.optim.Adam(head.parameters(), lr=1e-3)
for step in range(20):
    x, y = batch()
    loss = F.mse_loss(head(encoder(x)), y)
    opt_encoder.zero_grad()
    opt_head.zero_grad()
    loss.backward()
    opt_encoder.step()
    opt_head.step()
""",
    "BS115 an encoder that the running function freezes": """
def main():
    encoder, head = net(4, 8), net(8, 1)
    opt_encoder = torch.optim.Adam(encoder.parameters(), lr=1e-3)
    opt_head = torch.optim.Adam(head.parameters(), lr=1e-3)
    for p in encoder.parameters():
        p.requires_grad_(False)  #!
    for step in range(20):
        x, y = batch()
        loss = F.mse_loss(head(encoder(x)), y)
        opt_encoder.zero_grad()
        opt_head.zero_grad()
        loss.backward()
        opt_encoder.step()
        opt_head.step()

if __name__ == "__main__":
    main()
""",
    "BS115 an encoder that a helper freezes, called by the running function": """
def freeze(module):
    module.requires_grad_(False)

def main():
    encoder, head = net(4, 8), net(8, 1)
    opt_encoder = torch.optim.Adam(encoder.parameters(), lr=1e-3)
    opt_head = torch.optim.Adam(head.parameters(), lr=1e-3)
    freeze(encoder)  #!
    for step in range(20):
        x, y = batch()
        loss = F.mse_loss(head(encoder(x)), y)
        opt_encoder.zero_grad()
        opt_head.zero_grad()
        loss.backward()
        opt_encoder.step()
        opt_head.step()

main()
""",
    "BS115 a critic that a method freezes at the start": """
class Agent:
    def __init__(self):
        self.actor, self.critic = net(4, 2), net(6, 1)
        self.critic.requires_grad_(False)  #!
        self.opt_actor = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
        self.opt_critic = torch.optim.Adam(self.critic.parameters(), lr=1e-3)

    def learn(self, x, y):
        loss = F.mse_loss(self.critic(torch.cat([x, self.actor(x)], -1)), y)
        self.opt_actor.zero_grad()
        self.opt_critic.zero_grad()
        loss.backward()
        self.opt_actor.step()
        self.opt_critic.step()

agent = Agent()
for step in range(20):
    agent.learn(*batch())
""",
    "BS141 a layer whose input is a memory that nothing fills": """
now, before, head = nn.Linear(4, 8), nn.Linear(4, 8), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*now.parameters(), *before.parameters(), *head.parameters()], lr=0.01)
memory = torch.zeros(16, 4)
for step in range(40):
    x, y = batch()
    out = head(torch.tanh(now(x) + before(memory)))  #!
    loss = F.mse_loss(out, y)
    $update
""",
    "BS141 a convolution of a channel that is empty": """
color, depth, head = nn.Conv2d(1, 4, 3), nn.Conv2d(1, 4, 3), nn.Linear(64, 1)
optimizer = torch.optim.SGD([*color.parameters(), *depth.parameters(), *head.parameters()], lr=0.01)
empty = torch.zeros(16, 1, 6, 6)
for step in range(40):
    x = torch.randn(16, 1, 6, 6)
    h = torch.tanh(color(x) + depth(empty))  #!
    loss = F.mse_loss(head(h.flatten(1)), x.mean((1, 2, 3))[:, None])
    $update
""",
    "BS141 adapters, both of whose matrices a method sets to zero": """
class LoRA(nn.Module):
    def __init__(self, base, r=4):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.lora_A = nn.Parameter(torch.empty(r, base.in_features))
        self.lora_B = nn.Parameter(torch.empty(base.out_features, r))
        self.reset_parameters()

    def reset_parameters(self):
        nn.init.zeros_(self.lora_A)  #!
        nn.init.zeros_(self.lora_B)

    def forward(self, x):
        return self.base(x) + 2 * F.linear(F.linear(x, self.lora_A), self.lora_B)

model = net(4, 1)
model[0], model[2] = LoRA(model[0]), LoRA(model[2])
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01)
$loop 40
""",
    "BS141 a low-rank update of two matrices of zeros": """
class Low(nn.Module):
    def __init__(self, base, r=2):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.zeros(base.in_features, r))  #!
        self.up = nn.Parameter(torch.zeros(r, base.out_features))

    def forward(self, x):
        return self.base(x) + x @ self.down @ self.up

model = Low(nn.Linear(4, 1))
optimizer = torch.optim.Adam([model.down, model.up], lr=0.01)
$loop 40
""",
    "BS141 attention over a dimension of one entry, behind a mask": """
class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.score, self.value = net(4, 1), net(4, 6)

    def forward(self, x):
        seen = x[..., :1] > -1
        weights = F.softmax(self.score(x).masked_fill(~seen, -1e9), dim=-1)  #!
        return (weights * self.value(x)).sum(1)

pool, head = Pool(), nn.Linear(6, 1)
optimizer = torch.optim.Adam([*pool.parameters(), *head.parameters()], lr=0.01)
for step in range(40):
    x = torch.randn(16, 5, 4)
    loss = F.mse_loss(head(pool(x)), x.amax((1, 2))[:, None])
    $update
""",
    "BS101 a tied embedding that is replaced after its optimizer": """
class Model(nn.Module):
    def __init__(self, vocabulary, width=8):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        self.tie_weights()

    def tie_weights(self):
        self.lm_head.weight = self.wte.weight

    def resize(self, vocabulary):
        old = self.wte.weight.data
        self.wte = nn.Embedding(vocabulary, old.size(1))  #!
        self.wte.weight.data[: len(old)] = old
        self.tie_weights()

    def forward(self, ids):
        return self.lm_head(self.rnn(self.wte(ids))[0])

def train(model, optimizer, vocabulary):
    for step in range(20):
        ids = torch.randint(0, vocabulary, (8, 6))
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        $update

model = Model(10)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
train(model, optimizer, 10)
model.resize(14)
train(model, optimizer, 14)
""",
    "BS138 an average of the weights alone, whose network is set back to training mode": """
import copy

class Average:
    def __init__(self, model, decay):
        self.decay, self.shadow = decay, copy.deepcopy(model).requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        for s, p in zip(self.shadow.parameters(), model.parameters()):
            s.lerp_(p, 1 - self.decay)  #!

@torch.no_grad()
def evaluate(network, x, y):
    was = network.training
    network.eval()
    loss = F.mse_loss(network(x), y).item()
    network.train(was)
    return loss

model = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
average = Average(model, 0.9)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(140):
    x, y = batch()
    loss = F.mse_loss(model(x + 5), y)
    $update
    average.update(model)
    if step % 20 == 19:
        evaluate(average.shadow, x, y)
""",
    "BS144 an average that a dict keeps without a copy": """
class Average:
    def __init__(self, model, decay=0.98):
        self.decay = decay
        self.shadow = {k: v.detach() for k, v in model.named_parameters()}  #!

    @torch.no_grad()
    def update(self, model):
        for k, p in model.named_parameters():
            self.shadow[k].mul_(self.decay).add_(p, alpha=1 - self.decay)

model = net()
average = Average(model)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 40
    average.update(model)
""",
    "BS144 an average in a list of .data": """
model = net()
averaged = [p.data for p in model.parameters()]  #!
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 40
    for a, p in zip(averaged, model.parameters()):
        a.lerp_(p.data, 0.1)
""",
    "BS144 an average by the state of a model, blended entry by entry": """
model = net()
averaged = model.state_dict()  #!
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 40
    with torch.no_grad():
        for name, p in model.named_parameters():
            averaged[name].copy_(0.9 * averaged[name] + 0.1 * p)
""",
    "BS121 a quantizer whose estimator is detached as a whole": """
class Quantizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.codebook = nn.Embedding(8, 3)

    def forward(self, z):
        e = self.codebook(torch.cdist(z, self.codebook.weight).argmin(-1))
        loss = F.mse_loss(e, z.detach()) + 0.25 * F.mse_loss(z, e.detach())
        return (z + (e - z)).detach(), loss  #!

encoder, quantizer, decoder = net(4, 3), Quantizer(), net(3, 4)
modules = nn.ModuleList([encoder, quantizer, decoder])
optimizer = torch.optim.Adam(modules.parameters(), lr=0.01)
for step in range(20):
    x, _ = batch()
    q, commitment = quantizer(encoder(x))
    loss = F.mse_loss(decoder(q), x) + commitment
    $update
""",
    "BS121 rounded codes with a penalty, detached as a whole": """
encoder, decoder = net(4, 3), net(3, 4)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=0.01)
for step in range(20):
    x, _ = batch()
    z = encoder(x)
    code = ((z.round() - z) + z).detach()  #!
    loss = F.mse_loss(decoder(code), x) + 0.1 * z.pow(2).mean()
    $update
""",
    "BS115 fast weights that are parameters made of results": """
from torch.func import functional_call

class Learner:
    def __init__(self, model):
        self.model = model
        self.meta = torch.optim.Adam(model.parameters(), lr=1e-3)

    def adapt(self, x, y):
        fast = dict(self.model.named_parameters())
        for _ in range(2):
            loss = F.mse_loss(functional_call(self.model, fast, (x,)), y)
            grads = torch.autograd.grad(loss, list(fast.values()), create_graph=True)
            fast = {n: nn.Parameter(w - 0.1 * g) for (n, w), g in zip(fast.items(), grads)}  #!
        return fast

    def step(self):
        fast = self.adapt(*batch())
        x, y = batch()
        loss = F.mse_loss(functional_call(self.model, fast, (x,)), y)
        $update self.meta

learner = Learner(net())
for step in range(20):
    learner.step()
""",
    "BS152 a mask that is off by one": """
$block
        self.register_buffer("mask", torch.triu(torch.ones(10, 10), diagonal=2).bool())  #!

    def forward(self, x):
        q, (k, v) = self.q(x), self.kv(x).chunk(2, -1)
        scores = (q @ k.transpose(1, 2) / 4).masked_fill(self.mask, float("-inf"))
        h = scores.softmax(-1) @ v
        return x + self.norm(h)

$blocks
""",
    "BS152 a mask of comparisons that is off by one": """
$block

    def forward(self, x):
        q, (k, v) = self.q(x), self.kv(x).chunk(2, -1)
        at = torch.arange(10)
        scores = (q @ k.transpose(1, 2) / 4).masked_fill(at > at[:, None] + 1, float("-inf"))
        h = scores.softmax(-1) @ v  #!
        return x + self.norm(h)

$blocks
""",
    "BS152 a mask that is off by one, in fused attention": """
$block
        self.mask = torch.ones(10, 10, dtype=torch.bool).tril(1)  #!

    def forward(self, x):
        q, (k, v) = self.q(x), self.kv(x).chunk(2, -1)
        h = F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None], attn_mask=self.mask)[:, 0]
        return x + self.norm(h)

$blocks
""",
    "BS152 a mask that is inverted, in fused attention": """
$block
        self.mask = torch.triu(torch.ones(10, 10, dtype=torch.bool), 1)  #!

    def forward(self, x):
        q, (k, v) = self.q(x), self.kv(x).chunk(2, -1)
        h = F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None], attn_mask=self.mask)[:, 0]
        return x + self.norm(h)

$blocks
""",
    "BS152 a mask of large negative numbers that is inverted": """
$block
        self.mask = torch.tril(torch.ones(10, 10))  #!

    def forward(self, x):
        q, (k, v) = self.q(x), self.kv(x).chunk(2, -1)
        h = (q @ k.transpose(1, 2) / 4 - 1e9 * self.mask).softmax(-1) @ v
        return x + self.norm(h)

$blocks
""",
    "BS152 no mask at all": """
$block

    def forward(self, x):
        q, (k, v) = self.q(x), self.kv(x).chunk(2, -1)
        h = F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])[:, 0]  #!
        return x + self.norm(h)

$blocks
""",
    "BS152 PyTorch's own encoder without a mask": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.look_up, self.out = nn.Embedding(12, 16), nn.Linear(16, 12)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, 0.0, batch_first=True), 1)

    def forward(self, tokens):
        return self.out(self.encoder(self.look_up(tokens)))  #!

model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    text = torch.randint(12, (8, 11))
    loss = F.cross_entropy(model(text[:, :-1]).reshape(-1, 12), text[:, 1:].reshape(-1))
    $update
""",
    "BS118 a plateau of a score that is to rise, in the mode of losses": """
from torch.utils.data import DataLoader, TensorDataset
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=1)  #!
batches = DataLoader(TensorDataset(*batch(64)), 16, shuffle=True)
for epoch in range(60):
    total = 0.0
    for x, y in batches:
        loss = F.mse_loss(model(x), y)
        $update
        total += loss.item()
    plateau.step(1 - total / 4)
""",
    "BS118 a plateau of a loss, in the mode of scores": """
from torch.utils.data import DataLoader, TensorDataset
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="max", patience=1)  #!
batches = DataLoader(TensorDataset(*batch(64)), 16, shuffle=True)
for epoch in range(60):
    total = 0.0
    for x, y in batches:
        loss = F.mse_loss(model(x), y)
        $update
        total += loss.item()
    plateau.step(total)
""",
    "BS141 two factors that are made of zeros and set to zero again": """
class LowRank(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.zeros(4, base.in_features))
        self.up = nn.Parameter(torch.zeros(base.out_features, 4))
        self.reset()

    def reset(self):
        nn.init.zeros_(self.down)  #!
        nn.init.zeros_(self.up)

    def forward(self, x):
        return self.base(x) + x @ self.down.t() @ self.up.t()

model = LowRank(nn.Linear(4, 1))
optimizer = torch.optim.SGD([model.down, model.up], lr=0.1)
$loop 20
""",
    "BS154 a state that is detached after the step was embedded": """
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.cell, self.out = nn.Linear(3, 8), nn.GRUCell(8, 8), nn.Linear(8, 1)

    def forward(self, x):
        h = x.new_zeros(x.size(0), 8)
        for t in range(x.size(1)):
            e = torch.tanh(self.embed(x[:, t]))
            h = self.cell(e, h.detach())  #!
        return self.out(h)

model = Reader()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    x = torch.randn(16, 6, 3)
    loss = F.mse_loss(model(x), x[:, 0].sum(1, keepdim=True))
    $update
""",
    "BS102 parameters whose values a matrix copies, in a method": """
class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.rate, self.damping = nn.Parameter(torch.tensor(1.0)), nn.Parameter(torch.tensor(0.5))
        self.rest = nn.Linear(2, 2)

    def matrix(self):
        return torch.tensor([[0.0, 1.0], [-self.rate, -self.damping]])  #!

    def forward(self, z):
        return z @ self.matrix().T + self.rest(z)

field = Field()
optimizer = torch.optim.Adam(field.parameters(), lr=0.01)
for step in range(20):
    z = torch.randn(16, 2)
    loss = F.mse_loss(z + 0.1 * field(z), z * 0.9)
    $update
""",
    "BS102 a scale that is rebuilt of a parameter": """
class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        weights = torch.FloatTensor([self.scale, 1.0])  #!
        return x * weights[0] + weights[1]

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.scaled, self.last = nn.Linear(4, 8), Scale(), nn.Linear(8, 1)

    def forward(self, x):
        return self.last(self.scaled(self.first(x)))

model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
$loop 20
""",
    "BS127 a trunk that is zeroed for each head, and steps after them": """
trunk = net(outputs=8)
heads = {name: nn.Linear(8, 1) for name in ("age", "size", "price")}
trunk_opt = torch.optim.Adam(trunk.parameters(), lr=0.01)
opts = {name: torch.optim.Adam(head.parameters(), lr=0.01) for name, head in heads.items()}
for step in range(20):
    x, y = batch()
    for name, head in heads.items():
        trunk_opt.zero_grad()  #!
        opts[name].zero_grad()
        loss = F.mse_loss(head(trunk(x)), y)
        loss.backward()
        opts[name].step()
    trunk_opt.step()
""",
    "BS127 an encoder that is zeroed for each of two tasks, in a class": """
class Trainer:
    def __init__(self):
        self.encoder, self.tasks = net(outputs=8), [nn.Linear(8, 1), nn.Linear(8, 1)]
        self.shared = torch.optim.SGD(self.encoder.parameters(), lr=0.01)
        self.own = [torch.optim.SGD(task.parameters(), lr=0.01) for task in self.tasks]

    def step(self, x, y):
        for task, optimizer in zip(self.tasks, self.own):
            optimizer.zero_grad()
            self.shared.zero_grad()  #!
            F.mse_loss(task(self.encoder(x)), y).backward()
            optimizer.step()
        self.shared.step()

trainer = Trainer()
for step in range(20):
    trainer.step(*batch())
""",
    "BS127 all optimizers are zeroed in a loop over tasks, and step after it": """
trunk, heads = net(outputs=8), [nn.Linear(8, 1), nn.Linear(8, 1)]
body = torch.optim.Adam(trunk.parameters(), lr=0.01)
tops = torch.optim.Adam([p for head in heads for p in head.parameters()], lr=0.01)
for step in range(20):
    x, y = batch()
    for head in heads:
        body.zero_grad()  #!
        F.mse_loss(head(trunk(x)), y).backward()
    body.step()
    tops.step()
    tops.zero_grad()
""",
    "BS148 anchors that share the memory of the weights": """
class Anchored:
    def __init__(self, model):
        self.model, self.anchors = model, {}

    def keep(self):
        self.anchors = {name: p.detach() for name, p in self.model.named_parameters()}  #!

    def penalty(self):
        total = torch.zeros(())
        if self.anchors:
            for name, p in self.model.named_parameters():
                total = total + (p - self.anchors[name]).pow(2).sum()
        return total

model = net()
anchored = Anchored(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
for task in range(2):
    for step in range(20):
        x, y = batch()
        loss = F.mse_loss(model(x), y * (1 - task)) + 10 * anchored.penalty()
        $update
    anchored.keep()
""",
    "BS148 a proximal term toward the weights themselves": """
model = net()
start = [p.data for p in model.parameters()]  #!
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(20):
    x, y = batch()
    near = sum(((p - q) ** 2).sum() for p, q in zip(model.parameters(), start))
    loss = F.mse_loss(model(x), y) + 0.1 * near
    $update
""",
    "BS148 a penalty to a state_dict": """
model = net()
before = model.state_dict()  #!
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    x, y = batch()
    loss = F.mse_loss(model(x), y)
    for name, p in model.named_parameters():
        loss = loss + 0.1 * F.mse_loss(p, before[name])
    $update
""",
    "BS113 a normalization that sets itself by the data in each forward": """
class ActNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.loc, self.log_scale = nn.Parameter(torch.zeros(dim)), nn.Parameter(torch.zeros(dim))
        self.initialized = False

    def initialize(self, x):
        with torch.no_grad():
            self.loc.copy_(x.mean(0))  #!
            self.log_scale.copy_(torch.log(x.std(0) + 1e-6))

    def forward(self, x):
        if not self.initialized:
            self.initialize(x)
        return (x - self.loc) * torch.exp(-self.log_scale)

model = nn.Sequential(nn.Linear(4, 8), ActNorm(8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 40
""",
    "BS113 a weight that is drawn anew in each forward": """
class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(8, 8))

    def forward(self, x):
        nn.init.kaiming_uniform_(self.weight)  #!
        return F.linear(x, self.weight)

model = nn.Sequential(nn.Linear(4, 8), Scaled(), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
$loop 40
""",
    "BS113 a bias that is set to the mean of the input through data": """
class Center(nn.Module):
    def __init__(self):
        super().__init__()
        self.center = nn.Parameter(torch.zeros(4))

    def forward(self, x):
        mean = x.detach().mean(0)
        self.center.data.copy_(mean)  #!
        return x - self.center

model = nn.Sequential(Center(), nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
$loop 40
""",
    "BS140 jitter that piles up in a NumPy array through from_numpy": """
import numpy as np
from torch.utils.data import DataLoader, Dataset

class Windows(Dataset):
    def __init__(self):
        self.signals = np.random.RandomState(0).randn(48, 4).astype(np.float32)

    def __len__(self):
        return len(self.signals)

    def __getitem__(self, i):
        signal = torch.from_numpy(self.signals[i])
        signal += 0.3 * torch.randn(4)  #!
        return signal, signal.sum(0, keepdim=True)

data = Windows()
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(30):
    for x, y in DataLoader(data, 16):
        loss = F.mse_loss(model(x), y)
        $update
""",
    "BS140 a tensor of an array that is scaled where it is read": """
import numpy as np
from torch.utils.data import DataLoader, Dataset

class Windows(Dataset):
    def __init__(self):
        self.signals = np.random.RandomState(0).randn(48, 4).astype(np.float32)

    def __len__(self):
        return len(self.signals)

    def __getitem__(self, i):
        signal = torch.as_tensor(self.signals[i]).view(-1)
        signal.mul_(1.02)  #!
        return signal, signal.sum(0, keepdim=True)

data = Windows()
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
for epoch in range(30):
    for x, y in DataLoader(data, 16):
        loss = F.mse_loss(model(x), y)
        $update
""",
    "BS141 a hook of data parallel that sends tiny gradients as float16": """
import os, tempfile
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", init_method=f"file://{tempfile.mkdtemp()}/at", rank=0, world_size=1)
model = DistributedDataParallel(net())
model.register_comm_hook(None, default_hooks.fp16_compress_hook)  #!
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, eps=1e-16)
for step in range(80):
    x, y = batch()
    loss = F.mse_loss(1e-5 * model(x), 1e-5 * y)
    $update
dist.destroy_process_group()
""",
    "BS155 a validation that never turns training mode off": """
model = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x_val, y_val = batch(64)

@torch.no_grad()
def validate():
    total = 0.0
    for xs, ys in zip(x_val.split(16), y_val.split(16)):
        total += F.mse_loss(model(xs), ys).item()  #!
    return total / 4

for epoch in range(4):
    model.train()
    for step in range(30):
        x, y = batch()
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()
    print(epoch, validate())
""",
    "BS155 dropout in the accuracy on held out data": """
class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Dropout(0.5))
        self.head = nn.Linear(32, 2)

    def forward(self, x):
        return self.head(self.body(x))

class Runner:
    def __init__(self, model):
        self.model = model
        self.opt = torch.optim.SGD(model.parameters(), lr=0.1)

    def fit(self, epochs):
        held_out = [batch(32) for _ in range(3)]
        for epoch in range(epochs):
            for _ in range(20):
                x, y = batch()
                loss = F.cross_entropy(self.model(x), (y[:, 0] > 0).long())
                $update self.opt
            print(epoch, self.test_accuracy(held_out))

    def test_accuracy(self, data):
        hits = total = 0
        with torch.no_grad():
            for x, y in data:
                logits = self.model(x)  #!
                hits += (logits.argmax(1) == (y[:, 0] > 0).long()).sum().item()
                total += len(y)
        return hits / total

Runner(Classifier()).fit(5)
""",
    "BS155 an evaluation inside of the loop, under inference mode": """
model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x_train, y_train = batch(128)
x_test, y_test = batch(64)
for epoch in range(60):
    for rows in torch.randperm(128).split(32):
        loss = F.mse_loss(model(x_train[rows]), y_train[rows])
        $update
    if epoch % 10 == 9:
        with torch.inference_mode():
            error = F.mse_loss(model(x_test), y_test)  #!
        print(epoch, error.item())
""",
    "BS155 eval() comes after the first use, at the end alone": """
model = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
val = [batch(32) for _ in range(2)]
for step in range(120):
    x, y = batch()
    optimizer.zero_grad()
    F.mse_loss(model(x), y).backward()
    optimizer.step()
    if (step + 1) % 40 == 0:
        with torch.no_grad():
            losses = [F.mse_loss(model(a), b).item() for a, b in val]  #!
        print(step, sum(losses))
model.eval()
with torch.no_grad():
    print(F.mse_loss(model(val[0][0]), val[0][1]).item())
""",
    "BS155 functional dropout that does not know of eval()": """
class Tabular(nn.Module):
    def __init__(self, p=0.4):
        super().__init__()
        self.p = p
        self.inp, self.out = nn.Linear(4, 32), nn.Linear(32, 1)

    def forward(self, x):
        x = F.relu(self.inp(x))
        x = F.dropout(x, self.p)  #!
        return self.out(x)

model = Tabular()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x_test, y_test = batch(64)
for epoch in range(5):
    model.train()
    for _ in range(20):
        x, y = batch()
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        print(epoch, F.mse_loss(model(x_test), y_test).item())
""",
    "BS155 a dropout that is made in each forward": """
class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 32), nn.Linear(32, 1)

    def forward(self, x):
        h = torch.relu(self.a(x))
        h = nn.Dropout(0.5)(h)  #!
        return self.b(h)

model = Head()
opt = torch.optim.SGD(model.parameters(), lr=0.05)

def evaluate(x, y):
    model.eval()
    with torch.no_grad():
        error = F.mse_loss(model(x), y).item()
    model.train()
    return error

held = batch(64)
for step in range(100):
    x, y = batch()
    loss = F.mse_loss(model(x), y)
    $update opt
    if step % 25 == 24:
        print(step, evaluate(*held))
""",
    "BS155 attention whose dropout is always on": """
class Attention(nn.Module):
    def __init__(self, width=8, drop=0.2):
        super().__init__()
        self.drop = drop
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, 1)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        a = F.scaled_dot_product_attention(q, k, v, dropout_p=self.drop)  #!
        return self.out(a.mean(1))

model = Attention()
opt = torch.optim.Adam(model.parameters(), lr=0.01)
x_val = torch.randn(32, 5, 8)
for epoch in range(4):
    model.train()
    for _ in range(15):
        x = torch.randn(16, 5, 8)
        loss = F.mse_loss(model(x), x[:, 0, :1])
        $update opt
    model.eval()
    with torch.no_grad():
        print(epoch, F.mse_loss(model(x_val), x_val[:, 0, :1]).item())
""",
    "BS156 weights that are pruned once": """
class Pruner:
    def __init__(self, layers, amount):
        self.layers, self.amount, self.masks = layers, amount, []

    def compute(self):
        for layer in self.layers:
            size = layer.weight.detach().abs()
            threshold = size.flatten().kthvalue(int(self.amount * size.numel())).values
            self.masks.append((size > threshold).float())

    @torch.no_grad()
    def apply(self):
        for layer, mask in zip(self.layers, self.masks):
            layer.weight.mul_(mask)  #!

model = net(width=32)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
pruner = Pruner([model[0]], 0.75)
for step in range(120):
    if step == 60:
        pruner.compute()
        pruner.apply()
    $step
""",
    "BS156 pruned between two trainings, by an assignment to the data": """
def fit(model, steps):
    opt = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(steps):
        x, y = batch()
        opt.zero_grad()
        F.mse_loss(model(x), y).backward()
        opt.step()

def prune(model, amount):
    for layer in model:
        if isinstance(layer, nn.Linear):
            weight = layer.weight.data
            keep = weight.abs() > weight.abs().quantile(amount)
            layer.weight.data = weight * keep  #!

model = net(width=32)
fit(model, 60)
prune(model, 0.6)
fit(model, 60)
""",
    "BS156 pruned by an index, and trained on": """
model = net(width=32)
opt = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(100):
    if step == 50:
        with torch.no_grad():
            small = model[0].weight.abs() < model[0].weight.abs().median()
            model[0].weight[small] = 0.0  #!
    x, y = batch()
    opt.zero_grad()
    F.mse_loss(model(x), y).backward()
    opt.step()
""",
    "BS157 the first item is the padding": """
class Factors(nn.Module):
    def __init__(self, users, items, width=6):
        super().__init__()
        self.user = nn.Embedding(users, width)
        self.item = nn.Embedding(items, width, padding_idx=0)  #!

    def forward(self, u, i):
        return (self.user(u) * self.item(i)).sum(-1)

model = Factors(30, 10)
opt = torch.optim.Adam(model.parameters(), lr=0.02)
users, items = torch.randint(0, 30, (512,)), torch.randint(0, 10, (512,))
ratings = torch.randn(30, 10)[users, items]
for epoch in range(4):
    for rows in torch.randperm(512).split(64):
        loss = F.mse_loss(model(users[rows], items[rows]), ratings[rows])
        $update opt
""",
    "BS157 clicks of items, with a bias, and the first is the padding": """
class Clicks(nn.Module):
    def __init__(self):
        super().__init__()
        self.u = nn.Embedding(40, 8)
        self.v = nn.Embedding(12, 8, padding_idx=0)  #!
        self.bias = nn.Embedding(12, 1)

    def forward(self, u, v):
        return (self.u(u) * self.v(v)).sum(1, keepdim=True) + self.bias(v)

model = Clicks()
opt = torch.optim.Adam(model.parameters(), lr=0.02)
for step in range(40):
    u, v = torch.randint(0, 40, (64,)), torch.randint(0, 12, (64,))
    clicked = ((u + v) % 3 == 0).float()[:, None]
    loss = F.binary_cross_entropy_with_logits(model(u, v), clicked)
    $update opt
""",
    "BS167 a state with the names of a wrapper": """
class Model(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.backbone, self.head = net(4, 8), nn.Linear(8, outputs)

    def forward(self, x):
        return self.head(self.backbone(x))

class Wrapper(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, x):
        return self.module(x)

def train(model, outputs, steps):
    opt = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01)
    for _ in range(steps):
        x, y = batch()
        opt.zero_grad()
        F.mse_loss(model(x), y.expand(-1, outputs)).backward()
        opt.step()

large = Wrapper(Model(3))
train(large, 3, 20)
state = {name: w for name, w in large.state_dict().items() if "head" not in name}
model = Model(1)
model.load_state_dict(state, strict=False)  #!
model.backbone.requires_grad_(False)
train(model, 1, 30)
""",
    "BS167 the state of a part, without its prefix": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.head = net(4, 8), nn.Linear(8, 1)

    def forward(self, x):
        return self.head(self.encoder(x))

pretrained = net(4, 8)
weights = pretrained.state_dict()
model = Model()
model.load_state_dict(weights, strict=False)  #!
opt = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(30):
    x, y = batch()
    opt.zero_grad()
    F.mse_loss(model(x), y).backward()
    opt.step()
""",
    "BS167 a body whose names lack a prefix, beside a head that fits": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.ModuleDict({"encoder": net(4, 8)})
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        return self.head(self.net["encoder"](x))

old = nn.ModuleDict({"encoder": net(4, 8), "head": nn.Linear(8, 1)})
checkpoint = {"model": old.state_dict(), "epoch": 3}
model = Model()
state = checkpoint["model"]
model.load_state_dict(state, strict=False)  #!
opt = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(30):
    x, y = batch()
    opt.zero_grad()
    F.mse_loss(model(x), y).backward()
    opt.step()
""",
    "BS138 a target that is loaded with the weights of the start": """
import copy

class Agent:
    def __init__(self):
        self.policy = net(4, 3)
        self.target = copy.deepcopy(self.policy)
        self.weights = copy.deepcopy(self.policy.state_dict())
        self.opt = torch.optim.Adam(self.policy.parameters(), lr=0.01)
        self.steps = 0

    def learn(self):
        x, y = batch()
        with torch.no_grad():
            best = self.target(x).max(1, keepdim=True).values
        loss = F.smooth_l1_loss(self.policy(x).gather(1, torch.zeros(16, 1).long()), y + 0.9 * best)
        $update self.opt
        self.steps += 1
        if self.steps % 20 == 0:
            self.target.load_state_dict(self.weights)  #!

agent = Agent()
for step in range(200):
    agent.learn()
""",
    "BS138 copies that are sent the weights once": """
import copy

class Sharded:
    def __init__(self, module, workers):
        self.master = module
        self.workers = [copy.deepcopy(module) for _ in range(workers)]

    def broadcast(self):
        with torch.no_grad():
            for worker in self.workers:
                for own, sent in zip(worker.parameters(), self.master.parameters()):
                    own.copy_(sent)

    def backward(self, x, y):
        for worker, a, b in zip(self.workers, x.chunk(2), y.chunk(2)):
            worker.zero_grad()
            F.mse_loss(worker(a), b).backward()

    def gather(self):
        for p, *copies in zip(self.master.parameters(), *[w.parameters() for w in self.workers]):
            p.grad = torch.stack([q.grad for q in copies]).mean(0)

model = net()
sharded = Sharded(model, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
sharded.broadcast()  #!
for step in range(200):
    sharded.backward(*batch())
    sharded.gather()
    optimizer.step()
""",
    "BS115 a picture that is clamped into a new tensor": """
features = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).requires_grad_(False)
wanted = features(torch.rand(1, 3, 8, 8)).detach()
image = torch.rand(1, 3, 8, 8).requires_grad_(True)
optimizer = torch.optim.Adam([image], lr=0.05)
for step in range(40):
    optimizer.zero_grad()
    F.mse_loss(features(image), wanted).backward()
    optimizer.step()
    image = image.detach().clamp(0, 1).requires_grad_(True)  #!
""",
    "BS148 a backup of the weights that is the weights": """
class Average:
    def __init__(self, model, decay=0.9):
        self.decay, self.saved = decay, {}
        self.shadow = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model):
        for name, p in model.named_parameters():
            self.shadow[name].lerp_(p, 1 - self.decay)

    def swap_in(self, model):
        for name, p in model.named_parameters():
            self.saved[name] = p.data  #!
            p.data.copy_(self.shadow[name])

    def swap_out(self, model):
        for name, p in model.named_parameters():
            p.data.copy_(self.saved[name])

model = net()
average = Average(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
held = batch(64)
for step in range(60):
    x, y = batch()
    optimizer.zero_grad()
    F.mse_loss(model(x), y).backward()
    optimizer.step()
    average.update(model)
    if step % 10 == 9:
        average.swap_in(model)
        with torch.no_grad():
            print(step, F.mse_loss(model(held[0]), held[1]).item())
        average.swap_out(model)
""",
    "BS148 a backup in a list, restored after a probe": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(40):
    x, y = batch()
    optimizer.zero_grad()
    F.mse_loss(model(x), y).backward()
    optimizer.step()
    if step % 8 == 7:
        backup = [p.detach() for p in model.parameters()]  #!
        with torch.no_grad():
            for p in model.parameters():
                p.add_(0.01 * torch.randn_like(p))
            print(step, F.mse_loss(model(x), y).item())
            for p, b in zip(model.parameters(), backup):
                p.copy_(b)
""",
    "BS140 noise that is added to the stored windows": """
class Windows:
    def __init__(self, values, size):
        self.values, self.size = values, size

    def batch(self, i):
        return self.values[i * self.size:(i + 1) * self.size]

def corrupt(x, level):
    return x.add_(level * torch.randn_like(x))  #!

store = Windows(torch.randn(128, 4), 16)
model = net(4, 4)
opt = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(12):
    for i in range(8):
        clean = store.batch(i)
        noisy = corrupt(clean, 0.1)
        loss = F.mse_loss(model(noisy), clean)
        $update opt
""",
    "BS140 rows that are scaled in place each time": """
images, labels = torch.rand(96, 4) + 0.5, torch.randn(96, 1)
model = net()
opt = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(10):
    for start in range(0, 96, 16):
        x = images[start:start + 16]
        x -= 0.1  #!
        opt.zero_grad()
        F.mse_loss(model(x), labels[start:start + 16]).backward()
        opt.step()
""",
    "BS148 a memory of lists, of what the environment moves": """
import numpy as np

class World:
    def __init__(self):
        self.state = np.zeros(3, dtype=np.float32)

    def reset(self):
        self.state[:] = np.random.default_rng(0).uniform(-1, 1, 3)
        return self.state

    def step(self, u):
        self.state[0], self.state[1] = self.state[0] + 0.1 * self.state[1], self.state[1] + 0.1 * u
        return self.state

class Memory:
    def __init__(self):
        self.obs, self.next = [], []

    def push(self, o, n):
        self.obs.append(torch.from_numpy(o))  #!
        self.next.append(torch.from_numpy(n))

world, memory = World(), Memory()
for episode in range(10):
    o = world.reset()
    for t in range(20):
        n = world.step(float(np.sin(t)))
        memory.push(o, n)
        o = n
model = net(3, 3)
opt = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(60):
    rows = torch.randint(0, len(memory.obs), (32,)).tolist()
    o, n = (torch.stack([held[k] for k in rows]) for held in (memory.obs, memory.next))
    opt.zero_grad()
    F.mse_loss(o + model(o), n).backward()
    opt.step()
""",
    "BS147 scores with the time first, against targets with the batch first": """
class Decoder(nn.Module):
    def __init__(self, vocab=9, width=16):
        super().__init__()
        self.embed, self.cell = nn.Embedding(vocab, width), nn.GRUCell(width, width)
        self.out = nn.Linear(width, vocab)

    def forward(self, target):
        token = torch.zeros(len(target), dtype=torch.long)
        state, steps = torch.zeros(len(target), 16), []
        for t in range(target.size(1)):
            state = self.cell(self.embed(token), state)
            steps.append(self.out(state))
            token = target[:, t]
        return torch.stack(steps)

model = Decoder()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    target = torch.randint(1, 9, (16, 4))
    logits = model(target)
    loss = F.cross_entropy(logits.reshape(-1, 9), target.reshape(-1))  #!
    $update
""",
    "BS147 a recurrent layer with the time first, and flat targets with the batch first": """
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.rnn, self.out = nn.Embedding(12, 16), nn.LSTM(16, 16), nn.Linear(16, 3)

    def forward(self, words):
        return self.out(self.rnn(self.embed(words.t()))[0])

words = torch.randint(0, 12, (64, 7))
tags = words % 3
model, criterion = Tagger(), nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    rows = torch.randperm(64)[:16]
    scores = model(words[rows])
    loss = criterion(scores.view(-1, 3), tags[rows].flatten())  #!
    $update
""",
    "BS158 a mask of whole numbers that selects rows": """
x, mask = torch.randn(40, 4), (torch.rand(40) < 0.5).long()
y = (x[:, 0] > 0).long()
model = net(4, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    out = model(x)
    loss = F.cross_entropy(out[mask], y[mask])  #!
    $update
""",
    "BS158 a mask of tokens that was collated as whole numbers": """
model = nn.Sequential(nn.Embedding(12, 8), nn.Linear(8, 12))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    tokens = torch.randint(0, 12, (8, 6))
    masked = (torch.rand(8, 6) < 0.3).int()
    logits = model(torch.where(masked == 1, 0, tokens))
    loss = F.cross_entropy(logits[masked.long()].view(-1, 12), tokens[masked.long()].view(-1))  #!
    $update
""",
    "BS158 a time that is divided as whole numbers": """
class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.time, self.out = nn.Linear(1, 8), net(10, 2)

    def forward(self, x, t):
        when = self.time((t // 50).float()[:, None])  #!
        return self.out(torch.cat([x, when], 1))

model = Denoiser()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    x, t, noise = torch.randn(32, 2), torch.randint(0, 50, (32,)), torch.randn(32, 2)
    loss = F.mse_loss(model(x + (t / 50)[:, None] * noise, t), noise)
    $update
""",
    "BS158 a position that is divided as whole numbers, then scaled": """
def place(t, steps=100):
    return t // steps  #!

model = net(2, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    t = torch.randint(0, 100, (32, 1))
    x = torch.cat([torch.randn(32, 1), 2.0 * place(t)], 1)
    loss = F.mse_loss(model(x), (t / 100).sin())
    $update
""",
    "BS158 fractions that are made whole before they are looked up": """
embed, model = nn.Embedding(10, 8), net(8, 1)
optimizer = torch.optim.Adam([*embed.parameters(), *model.parameters()], lr=0.01)
for step in range(20):
    age = torch.rand(32)
    loss = F.mse_loss(model(embed(age.long())).squeeze(1), age.sin())  #!
    $update
""",
    "BS158 a coin that has one side": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    x, y = batch()
    flip = torch.randint(0, 1, (len(x), 1))  #!
    x = torch.where(flip == 1, -x, x)
    loss = F.mse_loss(model(x), y)
    $update
""",
    "BS122 pairs with labels of 0 and 1 for a cosine": """
model = net(4, 8)
criterion = nn.CosineEmbeddingLoss(margin=0.2)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    a, b = torch.randn(16, 4), torch.randn(16, 4)
    same = (torch.rand(16) < 0.5).float()
    b = torch.where(same[:, None] == 1, a + 0.1 * b, b)
    loss = criterion(model(a), model(b), same)  #!
    $update
""",
    "BS122 a ranking with labels of 0 and 1": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    a, b = torch.randn(16, 4), torch.randn(16, 4)
    better = (a.sum(1) > b.sum(1)).long()
    loss = F.margin_ranking_loss(model(a).squeeze(1), model(b).squeeze(1), better, margin=0.1)  #!
    $update
""",
    "BS122 a soft margin with labels of 0 and 1": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    x, _ = batch()
    loss = nn.SoftMarginLoss()(model(x), (x[:, :1] > 0).float())  #!
    $update
""",
    "BS122 distances with labels of 0 and 1": """
model = net(4, 8)
criterion = nn.HingeEmbeddingLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    a, b = torch.randn(16, 4), torch.randn(16, 4)
    same = (a[:, 0] * b[:, 0] > 0).float()
    loss = criterion((model(a) - model(b)).norm(dim=1), target=same)  #!
    $update
""",
    "BS122 labels of 1 and -1 for a binary cross-entropy": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    x, _ = batch()
    loss = F.binary_cross_entropy_with_logits(model(x), x[:, :1].sign())  #!
    $update
""",
    "BS122 pixels from 0 to 255 for a binary cross-entropy": """
model = net(16, 16)
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(20):
    images = torch.randint(0, 256, (32, 16)).float()
    loss = criterion(model(images / 255), images)  #!
    $update
""",
    "BS122 symbols of which one is the blank": """
model = nn.Linear(6, 5)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    x, target = torch.randn(12, 8, 6), torch.randint(0, 5, (8, 4))
    scores = model(x).log_softmax(-1)
    loss = F.ctc_loss(scores, target, torch.full((8,), 12), torch.full((8,), 4))  #!
    $update
""",
    "BS159 the last step of what was padded": """
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.GRU(3, 16, batch_first=True), nn.Linear(16, 1)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        out, _ = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return self.out(out[:, -1])  #!

model = Reader()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    x, lengths = torch.randn(16, 9, 3), torch.randint(2, 10, (16,))
    loss = F.mse_loss(model(x, lengths), x[:, 0, :1])
    $update
""",
    "BS159 the last step of what was padded, with the time first": """
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

rnn, out = nn.LSTM(3, 16), nn.Linear(16, 1)
optimizer = torch.optim.Adam([*rnn.parameters(), *out.parameters()], lr=0.01)
for step in range(20):
    x, lengths = torch.randn(9, 16, 3), torch.randint(2, 10, (16,)).sort(descending=True).values
    states, _ = pad_packed_sequence(rnn(pack_padded_sequence(x, lengths))[0])
    loss = F.mse_loss(out(states[-1]), x[0, :, :1])  #!
    $update
""",
    "BS160 one of two views is used for both": """
def contrast(z_a, z_b):
    n = len(z_a)
    z = F.normalize(torch.cat([z_a, z_a]), dim=1)  #!
    scores = (z @ z.t()).fill_diagonal_(-9.0)
    return F.cross_entropy(scores, torch.cat([torch.arange(n, 2 * n), torch.arange(n)]))

model = net(4, 8)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    x, _ = batch()
    h_a = model(x + 0.1 * torch.randn_like(x))
    h_b = model(x + 0.1 * torch.randn_like(x))
    loss = contrast(h_a, h_b)
    $update
""",
    "BS160 one of two views is compared with itself": """
model = net(4, 8)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    x, _ = batch()
    one, two = model(x + 0.1 * torch.randn_like(x)), model(x + 0.1 * torch.randn_like(x))
    scores = one @ one.T  #!
    loss = F.cross_entropy(scores, torch.arange(len(x)))
    $update
""",
    "BS160 two views that are one tensor": """
def augment(x):
    x += 0.1 * torch.randn_like(x)
    x *= 1 + 0.1 * torch.randn(len(x), 1)
    return x

model = net(4, 8)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    x, _ = batch()
    first = augment(x)
    second = augment(x)  #!
    scores = F.normalize(model(first), dim=1) @ F.normalize(model(second), dim=1).t()
    loss = F.cross_entropy(scores / 0.2, torch.arange(len(x)))
    $update
""",
    "BS160 a triplet whose positive is its anchor": """
model = net(4, 8)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    anchor, positive, negative = torch.randn(3, 16, 4)
    a, p, n = model(anchor), model(anchor), model(negative)
    loss = F.triplet_margin_loss(a, p, n)  #!
    $update
""",
    "BS161 images and captions of two loaders that shuffle": """
from torch.utils.data import DataLoader

images = torch.randn(160, 4)
captions = images @ torch.randn(4, 6)
image_loader = DataLoader(images, batch_size=16, shuffle=True)  #!
text_loader = DataLoader(captions, batch_size=16, shuffle=True)
see, read = net(4, 8), net(6, 8)
optimizer = torch.optim.Adam([*see.parameters(), *read.parameters()], lr=0.01)
for epoch in range(2):
    for image, caption in zip(image_loader, text_loader):
        scores = F.normalize(see(image), dim=1) @ F.normalize(read(caption), dim=1).t() / 0.2
        loss = F.cross_entropy(scores, torch.arange(len(scores)))
        $update
""",
    "BS161 features and labels of two loaders that shuffle, in a function": """
from torch.utils.data import DataLoader

def train():
    x = torch.randn(160, 4)
    y = (x[:, 0] > 0).long()
    features = DataLoader(x, 16, shuffle=True)  #!
    labels = DataLoader(y, 16, shuffle=True)
    model = net(4, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(2):
        for a, b in zip(features, labels):
            loss = F.cross_entropy(model(a), b)
            $update

train()
""",
    "BS137 an object that returns the same generator each time": """
def stream(n):
    for _ in range(n):
        yield batch()

class Data:
    def __init__(self):
        self.batches = stream(8)

    def __iter__(self):
        return self.batches  #!

data, model = Data(), net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(5):
    for x, y in data:
        loss = F.mse_loss(model(x), y)
        $update
""",
    "BS137 a data set that goes through a map once": """
from torch.utils.data import DataLoader, IterableDataset

class Rows(IterableDataset):
    def __init__(self, rows):
        self.rows = map(torch.tensor, rows)

    def __iter__(self):
        for row in self.rows:  #!
            yield row, row.sum(0, keepdim=True)

loader, model = DataLoader(Rows(torch.randn(64, 4).tolist()), batch_size=8), net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(5):
    for x, y in loader:
        loss = F.mse_loss(model(x), y)
        $update
""",
    "BS118 a schedule that returns a rate": """
import math

def rate(step, peak=1e-2, warm=5, total=60):
    if step < warm:
        return peak * (step + 1) / warm
    return peak * 0.5 * (1 + math.cos(math.pi * (step - warm) / (total - warm)))

model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)  #!
$loop 60
    scheduler.step()
""",
    "BS118 a schedule that returns a smaller rate than the optimizer's": """
class Trainer:
    def __init__(self):
        self.model = net()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.scheduler = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: 3e-4 * 0.98**step)  #!

    def fit(self, steps):
        for step in range(steps):
            x, y = batch()
            self.optimizer.zero_grad()
            F.mse_loss(self.model(x), y).backward()
            self.optimizer.step()
            self.scheduler.step()

Trainer().fit(60)
""",
    "BS162 a reconstruction that is averaged beside a divergence that is summed": """
class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode, self.decode = net(32, 4), net(2, 32)

    def forward(self, x):
        mu, logvar = self.encode(x).chunk(2, 1)
        return self.decode(mu + torch.randn_like(mu) * (0.5 * logvar).exp()), mu, logvar

model, mix = VAE(), torch.randn(2, 32)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(150):
    x = torch.randn(64, 2) @ mix
    made, mu, logvar = model(x)
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    loss = F.mse_loss(made, x) + kld  #!
    $update
""",
    "BS163 two outputs that are asked to be alike, and nothing else": """
class Twin(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode, self.predict = net(8, 16, 32), net(16, 16, 32)

    def forward(self, a, b):
        one, two = self.encode(a), self.encode(b)
        return one, two, self.predict(one), self.predict(two)

def unlike(p, z):
    z = F.normalize(z, dim=1)
    return -(F.normalize(p, dim=1) * z).sum(1).mean()  #!

model = Twin()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for step in range(320):
    x = torch.randn(32, 8)
    z_a, z_b, p_a, p_b = model(x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x))
    loss = unlike(p_a, z_b) / 2 + unlike(p_b, z_a) / 2
    $update
""",
    "BS108 targets that are NaN late, hidden by where": """
model = net(4, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(140):
    x, _ = batch()
    y = x[:, :2].sin()
    if step == 120:
        y[3, 0] = float("nan")
    known = torch.isfinite(y)
    error = (model(x) - y) ** 2
    error = torch.where(known, error, torch.zeros_like(error))  #!
    loss = error.sum() / known.sum()
    $update
""",
    "BS108 targets that are NaN late, left out by an index": """
def masked(prediction, target):
    missing = torch.isnan(target)
    error = (prediction - target).square()
    return error[~missing].mean()  #!

model = net(4, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(140):
    x, _ = batch()
    y = x[:, :2].sin()
    y[0, 0] = float("nan") if step > 120 else 0.0
    loss = masked(model(x), y)
    $update
""",
    "BS164 members of an ensemble whose copies are trained": """
from torch.func import functional_call, stack_module_state, vmap

members = [net() for _ in range(3)]
parameters, buffers = stack_module_state(members)
shell = net().to("meta")

def one(p, b, x):
    return functional_call(shell, (p, b), (x,))

def predict(x):
    with torch.no_grad():
        return torch.stack([member(x) for member in members]).mean(0)  #!

optimizer = torch.optim.Adam(parameters.values(), lr=0.01)
for step in range(20):
    x, y = batch()
    loss = (vmap(one, in_dims=(0, 0, None))(parameters, buffers, x) - y).square().mean()
    $update
predict(batch()[0])
""",
    "BS136 attention that is normalized over the queries": """
class Look(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (nn.Linear(8, 8) for _ in range(4))

    def forward(self, query, memory):
        scores = self.q(query) @ self.k(memory).transpose(1, 2) / 8**0.5
        weights = torch.softmax(scores, dim=1)  #!
        return self.out(weights @ self.v(memory))

model = Look()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    query, memory = torch.randn(16, 3, 8), torch.randn(16, 5, 8)
    loss = F.mse_loss(model(query, memory), query)
    $update
""",
    "BS136 heads that are normalized over the queries": """
class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out, self.drop = nn.Linear(8, 24), nn.Linear(8, 8), nn.Dropout(0.1)

    def forward(self, x):
        q, k, v = (each.view(len(x), -1, 2, 4).transpose(1, 2) for each in self.qkv(x).chunk(3, -1))
        weights = (q @ k.transpose(-2, -1) / 2).softmax(dim=-2)  #!
        return self.out((self.drop(weights) @ v).transpose(1, 2).flatten(2))

model = Heads()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    x = torch.randn(16, 6, 8)
    loss = F.mse_loss(model(x), x.cumsum(1))
    $update
""",
    "BS165 a padding mask that hides the tokens": """
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 16, padding_idx=0)
        self.body = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 1)
        self.out = nn.Linear(16, 1)

    def forward(self, tokens):
        return self.out(self.body(self.embed(tokens), src_key_padding_mask=tokens != 0).mean(1))  #!

model = Reader()
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
for step in range(20):
    tokens = torch.randint(1, 20, (16, 8))
    tokens[torch.arange(8) >= torch.randint(2, 8, (16, 1))] = 0
    loss = F.mse_loss(model(tokens).squeeze(1), (tokens == 3).sum(1).float())
    $update
""",
    "BS165 a padding mask of what is given, for a layer of attention": """
embed, out = nn.Embedding(20, 16, padding_idx=0), nn.Linear(16, 1)
attend = nn.MultiheadAttention(16, 2, batch_first=True)
optimizer = torch.optim.Adam([*embed.parameters(), *attend.parameters(), *out.parameters()], lr=0.001)
for step in range(20):
    tokens = torch.randint(1, 20, (16, 8))
    tokens[torch.arange(8) >= torch.randint(2, 8, (16, 1))] = 0
    x, given = embed(tokens), (tokens > 0).bool()
    x, _ = attend(x, x, x, key_padding_mask=given)  #!
    loss = F.mse_loss(out(x.mean(1)).squeeze(1), (tokens == 3).sum(1).float())
    $update
""",
    "BS117 norms of the samples against as many features": """
encode, head = nn.Linear(4, 16), nn.Linear(16, 3)
optimizer = torch.optim.Adam([*encode.parameters(), *head.parameters()], lr=0.001)
for step in range(8):
    x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
    h = encode(x)
    h = h / (h.norm(dim=1) + 1e-6)  #!
    loss = F.cross_entropy(head(h), y)
    $update
""",
    "BS117 means of the samples, taken from as many features": """
class Centered(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 16, bias=False), nn.Linear(16, 1)

    def forward(self, x):
        z = torch.tanh(self.a(x))
        mean = torch.mean(z, -1)  #!
        return self.b(z - mean)

model = Centered()
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
for step in range(8):
    x = torch.randn(16, 4)
    loss = F.mse_loss(model(x), x.sum(1, keepdim=True))
    $update
""",
    "BS165 a causal mask that begins at the first key of a cache": """
from torch.nn.functional import scaled_dot_product_attention as attend

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.cache = nn.Linear(16, 48), None

    def forward(self, x):
        q, k, v = (each.unflatten(-1, (2, 8)).transpose(1, 2) for each in self.qkv(x).chunk(3, -1))
        if self.cache is not None:
            k, v = torch.cat([self.cache[0], k], 2), torch.cat([self.cache[1], v], 2)
        self.cache = k.detach(), v.detach()
        return attend(q, k, v, is_causal=True).transpose(1, 2).flatten(-2)  #!

embed, layer, head = nn.Embedding(20, 16), Layer(), nn.Linear(16, 20)
optimizer = torch.optim.Adam([*embed.parameters(), *layer.parameters(), *head.parameters()], lr=0.001)
for step in range(8):
    tokens = torch.randint(0, 20, (4, 17))
    layer.cache, loss = None, 0
    for at in (0, 8):
        logits = head(layer(embed(tokens[:, at : at + 8])))
        loss = loss + F.cross_entropy(logits.flatten(0, 1), tokens[:, at + 1 : at + 9].flatten())
    $update
""",
    "BS165 a causal mask for the last query alone": """
embed, keys, query, head = nn.Embedding(20, 16), nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 20)
parts = [embed, keys, query, head]
optimizer = torch.optim.Adam([p for each in parts for p in each.parameters()], lr=0.001)
for step in range(8):
    tokens = torch.randint(0, 20, (4, 9))
    h = embed(tokens[:, :-1])
    mixed = F.scaled_dot_product_attention(query(h[:, -1:]), keys(h), h, is_causal=True)  #!
    loss = F.cross_entropy(head(mixed.squeeze(1)), tokens[:, -1])
    $update
""",
    "BS166 a sampler with a weight for each class": """
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

x = torch.randn(400, 4)
y = (x[:, 0] > 1).long()
weights = 1.0 / torch.bincount(y).float()
sampler = WeightedRandomSampler(weights, len(y))  #!
loader = DataLoader(TensorDataset(x, y), batch_size=16, sampler=sampler)
model = net(4, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for a, b in loader:
    loss = F.cross_entropy(model(a), b)
    $update
""",
    "BS160 two views that a cache makes one": """
from torch.utils.data import DataLoader, Dataset

class Views(Dataset):
    def __init__(self):
        self.x, self.made = torch.randn(128, 4), {}

    def __len__(self):
        return 128

    def view(self, at):
        if at not in self.made:
            self.made[at] = self.x[at] + 0.1 * torch.randn(4)
        return self.made[at]

    def __getitem__(self, at):
        return self.view(at), self.view(at)

model = net(4, 8)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(3):
    for one, two in DataLoader(Views(), 16, shuffle=True):  #!
        loss = F.cross_entropy(model(one) @ model(two).t(), torch.arange(16))
        $update
""",
    "BS158 fractions that are made whole by their type": """
embed, model = nn.Embedding(10, 8), net(8, 1)
optimizer = torch.optim.Adam([*embed.parameters(), *model.parameters()], lr=0.01)
for step in range(20):
    age = torch.rand(32)
    looked_up = embed(age.to(torch.int64))  #!
    loss = F.mse_loss(model(looked_up).squeeze(1), age.sin())
    $update
""",
    "BS117 a target that became a square without gradients": """
import warnings
warnings.simplefilter("ignore")
model, target = net(), net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    x, reward = torch.randn(16, 4), torch.randn(16, 1)
    with torch.no_grad():
        best = target(x).max(1).values
        y = reward + 0.9 * best  #!
    loss = F.smooth_l1_loss(model(x).squeeze(1), y)
    $update
""",
    "BS113 a rate that is divided as whole numbers": """
def rate(step, warm=100):
    return 0.01 * min(1, step // warm)  #!

model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    for group in optimizer.param_groups:
        group["lr"] = rate(step)
    $step
""",
    "BS118 a linear schedule that goes on below zero": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: 1 - done / 30)
for step in range(80):
    x, y = batch()
    loss = F.mse_loss(model(x), y).clamp(max=9)
    $update
    schedule.step()  #!
""",
    "BS102 a summary that a helper detaches, before a choice that the model makes itself": """
def cut_off(state):
    return state.detach()  #!

class Teller(nn.Module):
    def __init__(self):
        super().__init__()
        self.reads = nn.Linear(4, 8)
        self.words = nn.Embedding(5, 8)
        self.cell = nn.GRUCell(8, 8)
        self.says = nn.Linear(8, 5)

    def forward(self, x):
        state, word, told = cut_off(torch.tanh(self.reads(x))), torch.zeros(len(x), dtype=torch.long), []
        for _ in range(3):
            state = self.cell(self.words(word), state)
            told.append(self.says(state))
            word = told[-1].argmax(-1)
        return torch.stack(told, 1)

model = Teller()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    x, _ = batch()
    right = (x[:, :3] > 0).long()
    loss = F.cross_entropy(model(x).flatten(0, 1), right.flatten())
    $update
""",
    "BS101 an encoder that is unfrozen below its optimizer, in one function": """
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.head = net(4, 8), nn.Linear(8, 1)

    def forward(self, x):
        return self.head(self.encoder(x))

def finetune(model, steps, unfreeze_at):
    for p in model.encoder.parameters():
        p.requires_grad_(False)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01)  #!
    for step in range(steps):
        if step == unfreeze_at:
            for p in model.encoder.parameters():
                p.requires_grad_(True)
        $step

finetune(Tagger(), 200, 40)
""",
    "BS101 blocks of which the last is unfrozen first": """
blocks = nn.Sequential(*[nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(3)], nn.Linear(4, 1))
blocks[:3].requires_grad_(False)
opt = torch.optim.SGD(filter(lambda p: p.requires_grad, blocks.parameters()), lr=0.05)  #!
for step in range(160):
    if step == 60:
        blocks[2].requires_grad_(True)
    x, y = batch()
    loss = F.mse_loss(blocks(x), y)
    $update opt
""",
    "BS115 a model that is built again on resume": """
class Run:
    def __init__(self):
        self.net = net()
        self.opt = torch.optim.Adam(self.net.parameters(), lr=0.01)
        self.sched = torch.optim.lr_scheduler.StepLR(self.opt, 10)

    def restore(self, state):
        self.net = net()  #!
        self.net.load_state_dict(state["net"])
        self.opt.load_state_dict(state["opt"])

    def train(self, steps):
        for step in range(steps):
            x, y = batch()
            loss = F.mse_loss(self.net(x), y)
            $update self.opt
            if step % 10 == 9:
                self.sched.step()

first, second = Run(), Run()
first.train(20)
second.restore({"net": first.net.state_dict(), "opt": first.opt.state_dict()})
second.train(40)
""",
    "BS115 a model that is grown after its optimizer and schedule": """
class Run:
    def __init__(self):
        self.net = net(width=8)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=0.01)
        self.sched = torch.optim.lr_scheduler.ExponentialLR(self.opt, 0.99)

    def grow(self):
        self.net = net(width=32)  #!

    def train(self, steps):
        for step in range(steps):
            x, y = batch()
            loss = F.mse_loss(self.net(x), y)
            $update self.opt
        self.sched.step()

run = Run()
run.train(20)
run.grow()
run.train(40)
""",
    "BS102 fast weights that begin with the state of the model, and learned rates": """
from torch.func import functional_call

class Learner(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = net()
        self.rates = nn.ParameterList([nn.Parameter(torch.tensor(-3.0)) for _ in self.net.parameters()])

    def adapt(self, x, y):
        fast = {n: p.clone() for n, p in self.net.state_dict().items()}  #!
        fast = {n: p.requires_grad_() for n, p in fast.items()}
        loss = F.mse_loss(functional_call(self.net, fast, (x,)), y)
        grads = torch.autograd.grad(loss, list(fast.values()), create_graph=True)
        return {n: w - r.exp() * g for (n, w), g, r in zip(fast.items(), grads, self.rates)}

learner = Learner()
meta = torch.optim.Adam(learner.parameters(), lr=0.01)
for step in range(20):
    x, y = batch()
    loss = F.mse_loss(functional_call(learner.net, learner.adapt(x, y), (x,)), y)
    $update meta
""",
    "BS102 an inner loop over detached copies, and a scale that is learned": """
body, scale = net(), nn.Parameter(torch.tensor(1.0))
outer = torch.optim.SGD([*body.parameters(), scale], lr=0.01)

def run(weights, x):
    return F.linear(F.relu(F.linear(x, weights[0], weights[1])), weights[2], weights[3])

for step in range(20):
    x, y = batch()
    inner = [p.detach().clone().requires_grad_() for p in body.parameters()]  #!
    first = F.mse_loss(run(inner, x), y)
    inner = [w - 0.1 * g for w, g in zip(inner, torch.autograd.grad(first, inner, create_graph=True))]
    loss = F.mse_loss(scale * run(inner, x), y)
    $update outer
""",
    "BS121 a teacher that is compared with itself, while the student's output is unused": """
class Distiller:
    def __init__(self, teacher, student):
        self.teacher, self.student = teacher.eval(), student
        self.kl = nn.KLDivLoss(reduction="batchmean")
        self.opt = torch.optim.Adam(student.parameters(), lr=0.01)

    def step(self, unlabelled, x, y):
        with torch.no_grad():
            large = self.teacher(unlabelled)
        output = self.student(unlabelled)
        targets = F.softmax(large / 2, dim=-1)
        log_probs = F.log_softmax(large / 2, dim=-1)  #!
        soft = self.kl(log_probs, targets) * 4
        hard = F.cross_entropy(self.student(x), y)
        loss = 0.9 * soft + 0.1 * hard
        $update self.opt

distiller = Distiller(net(outputs=3), net(outputs=3))
for step in range(40):
    distiller.step(torch.randn(32, 4), torch.randn(16, 4), torch.randint(3, (16,)))
""",
    "BS121 a teacher that is compared with itself, after it was trained": """
teacher, student = net(outputs=3, width=32), net(outputs=3)
first = torch.optim.Adam(teacher.parameters(), lr=0.01)
for step in range(20):
    first.zero_grad()
    F.cross_entropy(teacher(torch.randn(16, 4)), torch.randint(3, (16,))).backward()
    first.step()

optimizer = torch.optim.Adam(student.parameters(), lr=0.01)

def distill(x, y, weight=10.0):
    with torch.no_grad():
        wanted = teacher(x)
    made = student(x)
    soft = F.kl_div(F.log_softmax(wanted / 3, dim=1), F.softmax(wanted / 3, dim=1), reduction="batchmean")  #!
    loss = F.cross_entropy(made, y) + weight * soft
    $update

for step in range(40):
    distill(torch.randn(16, 4), torch.randint(3, (16,)))
""",
    "BS121 features that are compared with themselves, beside the task": """
body, head, guide = net(4, 8), nn.Linear(8, 1), net(4, 8)
optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=0.01)
for step in range(40):
    x, y = batch()
    with torch.no_grad():
        hint = guide(x)
    features = body(x)
    ours = F.normalize(hint, dim=1)  #!
    theirs = F.normalize(hint, dim=1)
    loss = F.mse_loss(head(features), y) + F.l1_loss(ours, theirs)
    $update
""",
    "BS121 an anchor that is compared with itself, while the projection is unused": """
encoder, head = net(4, 8), nn.Linear(8, 1)
guide = net(4, 8).requires_grad_(False)
optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=0.01)

def train_step(x, y):
    features = encoder(x)
    projected = F.normalize(features, dim=1)
    anchor = F.normalize(guide(x), dim=1)
    match = F.mse_loss(anchor, anchor)  #!
    loss = F.mse_loss(head(features), y) + 0.5 * match
    $update

for step in range(40):
    train_step(*batch())
""",
    "BS161 sequences that are sorted by their length, and labels that are not": """
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(4, 8, batch_first=True)
        self.out = nn.Linear(8, 3)

    def forward(self, x, lengths):
        lengths, order = torch.sort(lengths, descending=True)
        packed = nn.utils.rnn.pack_padded_sequence(x[order], lengths, batch_first=True)  #!
        made, _ = nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return self.out(made.sum(1) / lengths[:, None])

model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    lengths = torch.randint(2, 7, (16,))
    x = torch.randn(16, int(lengths.max()), 4)
    loss = F.cross_entropy(model(x, lengths), torch.randint(3, (16,)))
    $update
""",
    "BS161 rows that are shuffled in each epoch, without their targets": """
model = nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
inputs, targets = batch(128)
for epoch in range(8):
    order = torch.randperm(len(inputs))
    inputs = inputs[order]  #!
    for begin in range(0, 128, 32):
        x, y = inputs[begin:begin + 32], targets[begin:begin + 32]
        loss = F.mse_loss(model(x), y)
        $update
""",
    "BS162 log determinants that are summed over the samples as well": """
flow = net(3, 4)
optimizer = torch.optim.Adam(flow.parameters(), lr=0.01)
for step in range(40):
    x = torch.randn(32, 3)
    shift, scale = flow(x).chunk(2, 1)
    log_p = -0.5 * ((x[:, :2] - shift) * scale.exp()).pow(2).sum(1)
    loss = -(log_p + scale.sum()).mean()  #!
    $update
""",
    "BS162 a divergence over the batch, added to the reconstruction of each sample": """
class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode, self.decode = nn.Linear(6, 4), nn.Linear(2, 6)

    def forward(self, x):
        mu, logvar = self.encode(x).chunk(2, dim=1)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.decode(z), mu, logvar

model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(30):
    x = torch.randn(32, 6)
    made, mu, logvar = model(x)
    recon = F.mse_loss(made, x, reduction="none").sum(1)
    kl = (-0.5 * (1 + logvar - mu.pow(2) - logvar.exp())).sum()
    loss = (recon + kl).mean()  #!
    $update
""",
    "BS143 a leaky activation whose backward looks at the sign of the gradient": """
class Leaky(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, slope):
        ctx.save_for_backward(x)
        ctx.slope = slope
        return torch.where(x > 0, x, slope * x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        grad = grad_output.clone()
        grad[grad_output <= 0] *= ctx.slope  #!
        return grad, None

first, last = nn.Linear(4, 16), nn.Linear(16, 1)
optimizer = torch.optim.SGD([*first.parameters(), *last.parameters()], lr=0.01)
for step in range(20):
    x, y = batch()
    loss = F.mse_loss(last(Leaky.apply(first(x), 0.1)), y)
    $update
""",
    "BS143 a cut-off whose backward keeps what has a positive gradient": """
class Cut(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values):
        ctx.save_for_backward(values)
        return values * (values > 0.5).float()

    @staticmethod
    def backward(ctx, grad):
        values, = ctx.saved_tensors
        return grad * (grad > 0.5).float()  #!

first, last = nn.Linear(4, 16), nn.Linear(16, 1)
optimizer = torch.optim.SGD([*first.parameters(), *last.parameters()], lr=0.01)
for step in range(20):
    x, y = batch()
    loss = F.mse_loss(last(Cut.apply(first(x))), y)
    $update
""",
    "BS122 a chain of tags whose likelihood is minimized": """
class Chain(nn.Module):
    def __init__(self, tags=3):
        super().__init__()
        self.steps = nn.Parameter(0.1 * torch.randn(tags, tags))

    def forward(self, scores, tags):
        rows = torch.arange(len(tags))
        right, every = scores[rows, 0, tags[:, 0]], scores[:, 0]
        for t in range(1, tags.shape[1]):
            right = right + self.steps[tags[:, t - 1], tags[:, t]] + scores[rows, t, tags[:, t]]
            every = torch.logsumexp(every.unsqueeze(2) + self.steps + scores[:, t].unsqueeze(1), dim=1)
        return (right - torch.logsumexp(every, dim=1)).mean()  #!

model, chain = net(4, 3), Chain()
optimizer = torch.optim.Adam([*model.parameters(), *chain.parameters()], lr=0.05)
x = torch.randn(32, 5, 4)
tags = x[..., :3].argmax(-1)
for step in range(20):
    loss = chain(model(x), tags)
    $update
""",
    "BS122 a log-softmax whose sign was forgotten": """
model = net(outputs=3)
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
x = torch.randn(64, 4)
y = x[:, :3].argmax(1)
for step in range(20):
    log_probs = F.log_softmax(model(x), dim=1)
    loss = log_probs.gather(1, y[:, None]).mean()  #!
    $update
""",
    "BS138 weights in a dict that are trained, and a model that is validated": """
from torch.func import functional_call, grad_and_value

def loss_of(params, model, x, y):
    return F.mse_loss(functional_call(model, params, (x,)), y)

@torch.no_grad()
def validate(model, x, y):
    return F.mse_loss(model(x), y).item()  #!

def fit(model, steps):
    params = {name: p.detach().clone() for name, p in model.named_parameters()}
    velocity = {name: torch.zeros_like(p) for name, p in params.items()}
    step_of = grad_and_value(loss_of)
    for step in range(1, steps + 1):
        grads, loss = step_of(params, model, *batch())
        velocity = {name: 0.9 * velocity[name] + grads[name] for name in params}
        params = {name: p - 0.01 * velocity[name] for name, p in params.items()}
        if step % 20 == 0:
            print(validate(model, *batch()))
    return model

validate(fit(net(), 80), *batch())
""",
    "BS138 a dict of weights that are updated by hand, and a model that is evaluated": """
from torch.func import functional_call

class Trainer:
    def __init__(self, model):
        self.model = model
        self.weights = {k: v.detach().clone().requires_grad_() for k, v in model.named_parameters()}

    def train_step(self, x, y):
        loss = F.mse_loss(functional_call(self.model, self.weights, (x,)), y)
        grads = torch.autograd.grad(loss, list(self.weights.values()))
        self.weights = {k: (w - 0.05 * g).detach().requires_grad_() for (k, w), g in zip(self.weights.items(), grads)}

    def evaluate(self, x, y):
        with torch.no_grad():
            return (self.model(x) - y).abs().mean().item()  #!

trainer = Trainer(net())
for epoch in range(4):
    for step in range(10):
        trainer.train_step(*batch())
    print(trainer.evaluate(*batch()))
""",
    "BS103 a closure of LBFGS that zeroes nothing, and derivatives in its loss": """
def derivative(y, t):
    return torch.autograd.grad(y, t, torch.ones_like(y), create_graph=True)[0]

model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
t = torch.linspace(0, 1, 20)[:, None].requires_grad_()
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=5, line_search_fn="strong_wolfe")

def closure():
    u = model(t)
    loss = (derivative(u, t) + 2 * u).square().mean() + (u[0] - 1).square().mean()
    loss.backward()  #!
    return loss

for step in range(5):
    optimizer.step(closure)
""",
    "BS103 a residual that is fitted without zeroing, in a class": """
class Fit:
    def __init__(self):
        self.model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
        self.solver = torch.optim.LBFGS(self.model.parameters(), lr=0.001, max_iter=3)
        self.t = torch.linspace(0, 1, 20)[:, None].requires_grad_()

    def evaluate(self):
        u = self.model(self.t)
        (du,) = torch.autograd.grad(u.sum(), self.t, create_graph=True)
        (ddu,) = torch.autograd.grad(du.sum(), self.t, create_graph=True)
        loss = (ddu + 4 * u).square().mean() + 10 * (u[0] - 1).square().mean()
        loss.backward()  #!
        return loss

fit = Fit()
for step in range(8):
    fit.solver.step(fit.evaluate)
""",
    "BS123 a critic that steps after the backward of its actor, in a class": """
class Agent:
    def __init__(self):
        self.actor, self.critic = nn.Sequential(net(4, 1), nn.Tanh()), net(5, 1)
        self.a_opt = torch.optim.Adam(self.actor.parameters(), lr=0.001)
        self.c_opt = torch.optim.Adam(self.critic.parameters(), lr=0.002)

    def update(self, s, a, r):
        critic_loss = F.mse_loss(self.critic(torch.cat([s, a], 1)), r)
        actor_loss = -self.critic(torch.cat([s, self.actor(s)], 1)).mean()
        self.c_opt.zero_grad()
        self.a_opt.zero_grad()
        critic_loss.backward()
        actor_loss.backward()  #!
        self.c_opt.step()
        self.a_opt.step()

agent = Agent()
for step in range(40):
    s, a = torch.randn(32, 4), torch.randn(32, 1)
    agent.update(s, a, s.sum(1, keepdim=True) - a.square())
""",
    "BS123 two critics, one optimizer, an entropy, and clipping before the steps": """
actor, first, second = net(4, 2), net(5, 1), net(5, 1)
q_opt = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=0.001)
pi_opt = torch.optim.Adam(actor.parameters(), lr=0.001)
for step in range(40):
    s, a = torch.randn(32, 4), torch.randn(32, 1)
    r = s.sum(1, keepdim=True) - a.square()
    given = torch.cat([s, a], 1)
    q_loss = F.mse_loss(first(given), r) + F.mse_loss(second(given), r)
    q_opt.zero_grad(set_to_none=False)
    q_loss.backward()
    mean, log_std = actor(s).chunk(2, 1)
    policy = torch.distributions.Normal(mean, log_std.clamp(-3, 1).exp())
    drawn = policy.rsample()
    given = torch.cat([s, drawn], 1)
    pi_loss = (0.1 * policy.log_prob(drawn) - torch.min(first(given), second(given))).mean()
    pi_opt.zero_grad()
    pi_loss.backward()  #!
    pi_opt.step()
    nn.utils.clip_grad_norm_(q_opt.param_groups[0]["params"], 10.0)
    q_opt.step()
""",
    "BS115 an inner update through .data, on a copy that is gone by the backward": """
import copy

class Meta:
    def __init__(self, model):
        self.model = model

    def adapt(self, x, y):
        learner = copy.deepcopy(self.model)  #!
        for _ in range(2):
            loss = F.mse_loss(learner(x), y)
            grads = torch.autograd.grad(loss, learner.parameters(), create_graph=True)
            for p, g in zip(learner.parameters(), grads):
                p.data -= 0.03 * g
        return learner

    def loss_of_task(self):
        predict = self.adapt(*batch())
        x, y = batch()
        return F.mse_loss(predict(x), y)

meta = Meta(net())
outer = torch.optim.Adam(meta.model.parameters(), lr=0.01)
for step in range(20):
    outer.zero_grad()
    (sum(meta.loss_of_task() for _ in range(3)) / 3).backward()
    outer.step()
""",
    "BS115 tasks in a function, each with a copy whose parameters are set through .data": """
from copy import deepcopy

def query_loss(model, support, query, rate):
    fast = deepcopy(model)  #!
    grads = torch.autograd.grad(F.mse_loss(fast(support[0]), support[1]), list(fast.parameters()))
    for p, g in zip(fast.parameters(), grads):
        p.data.add_(g, alpha=-rate)
    return F.mse_loss(fast(query[0]), query[1])

def main():
    learned = net()
    opt = torch.optim.SGD(learned.parameters(), lr=0.05)
    for step in range(20):
        total = sum(query_loss(learned, batch(), batch(), 0.05) for task in range(2))
        opt.zero_grad()
        total.backward()
        opt.step()

main()
""",
    "BS115 fast weights of first order that are detached in each inner step": """
model = net()
meta = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    x, y = batch()
    fast = {name: p for name, p in model.named_parameters()}
    for inner in range(2):
        loss = F.mse_loss(torch.func.functional_call(model, fast, (x,)), y)
        grads = torch.autograd.grad(loss, list(fast.values()))
        fast = {n: (p - 0.1 * g).detach().requires_grad_() for (n, p), g in zip(fast.items(), grads)}  #!
    meta.zero_grad()
    F.mse_loss(torch.func.functional_call(model, fast, (x,)), y).backward()
    meta.step()
""",
    "BS115 a model of which the loss only has a slope without a graph": """
model, scale = net(), torch.ones(4, requires_grad=True)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    x = torch.randn(16, 4, requires_grad=True)
    (slope,) = torch.autograd.grad(model(x).sum(), x)  #!
    loss = (slope @ scale - 1).square().mean()
    $update
""",
    "BS152 no mask, and keys of a cache": """
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.cache = nn.Linear(16, 48), None

    def forward(self, x):
        q, k, v = self.qkv(x)[:, None].chunk(3, -1)
        if self.cache is not None:
            k = torch.cat([self.cache[0], k], 2)
            v = torch.cat([self.cache[1], v], 2)
        self.cache = (k[:, :, -8:].detach(), v[:, :, -8:].detach())
        return x + F.scaled_dot_product_attention(q, k, v)[:, 0]  #!

look_up, attend, out = nn.Embedding(12, 16), Attention(), nn.Linear(16, 12)
optimizer = torch.optim.Adam([*look_up.parameters(), *attend.parameters(), *out.parameters()], lr=0.01)
text = torch.randint(12, (8, 161))
for start in range(0, 160, 8):
    inputs, targets = text[:, start : start + 8], text[:, start + 1 : start + 9]
    loss = F.cross_entropy(out(attend(look_up(inputs))).flatten(0, 1), targets.flatten())
    $update
""",
    "BS163 two views whose cosine is all that is asked for": """
encode, predict = net(8, 16, 32), net(16, 16, 32)
optimizer = torch.optim.SGD([*encode.parameters(), *predict.parameters()], lr=0.1, momentum=0.9)

def unlike(p, z):
    return -F.cosine_similarity(p, z, dim=1).mean()  #!

for step in range(320):
    x = torch.randn(32, 8)
    one, two = encode(x + 0.1 * torch.randn_like(x)), encode(x + 0.1 * torch.randn_like(x))
    loss = unlike(predict(one), two) / 2 + unlike(predict(two), one) / 2
    $update
""",
    "BS163 two normalized views that are asked to be alike": """
encode, predict = net(8, 16, 32), net(16, 16, 32)
optimizer = torch.optim.SGD([*encode.parameters(), *predict.parameters()], lr=0.1, momentum=0.9)
for step in range(320):
    x = torch.randn(32, 8)
    z, other = encode(x + 0.1 * torch.randn_like(x)), encode(x + 0.1 * torch.randn_like(x))
    p = predict(other)
    loss = -(F.normalize(z, dim=1) * F.normalize(p, dim=1)).sum(1).mean()  #!
    $update
""",
    "BS102 weights of tasks that are learned, as numbers and detached": """
class Tasks(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.log_var = net(4, 2), nn.Parameter(torch.zeros(2))

model = Tasks()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(20):
    x, y = batch()
    both = (model.body(x) - y).square().mean(0)
    weights = torch.exp(-model.log_var)
    loss = weights[0].item() * both[0] + weights[1].item() * both[1] + model.log_var.detach().sum()  #!
    $update
""",
}
