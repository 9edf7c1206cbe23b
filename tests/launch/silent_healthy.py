"""Trainings in order, each the neighbour of one that is not: nothing may be said of them. `HEAD` stands before each."""

HEALTHY = {
    "a plain loop": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(320):
    x, y = batch()
    loss = F.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "layers whose rate is 0 in the first phase": """
early, late = net(4, 4), net(4, 1)
optimizer = torch.optim.SGD([{"params": early.parameters(), "lr": 0.0}, {"params": late.parameters(), "lr": 0.01}])
for step in range(150):
    if step == 60:
        optimizer.param_groups[0]["lr"] = 0.01
    x, y = batch()
    loss = F.mse_loss(late(early(x)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "two phases, the second optimizer waits": """
first, second = net(4, 4), net(4, 1)
a = torch.optim.Adam(first.parameters(), lr=0.01)
b = torch.optim.Adam(second.parameters(), lr=0.01)
for step in range(120):
    x, y = batch()
    hidden = first(x)
    loss = F.mse_loss(second(hidden), y) if step > 2 else F.mse_loss(hidden, x)
    a.zero_grad(); b.zero_grad()
    loss.backward()
    a.step(); b.step()
""",
    "a target network and an actor": """
import copy
critic, actor = net(4, 1), net(4, 4)
target = copy.deepcopy(critic).requires_grad_(False)
c, a = torch.optim.Adam(critic.parameters(), lr=0.01), torch.optim.Adam(actor.parameters(), lr=0.01)
for step in range(60):
    x, y = batch()
    with torch.no_grad():
        aim = y + 0.9 * target(x)
    c.zero_grad()
    F.mse_loss(critic(x), aim).backward()
    c.step()
    a.zero_grad()
    (-critic(actor(x)).mean()).backward()
    a.step()
    with torch.no_grad():
        for t, p in zip(target.parameters(), critic.parameters()):
            t.lerp_(p, 0.01)
""",
    "a GAN": """
generator, critic = net(4, 4), net(4, 1)
g_opt, d_opt = torch.optim.Adam(generator.parameters(), lr=0.01), torch.optim.Adam(critic.parameters(), lr=0.01)
for step in range(60):
    x, _ = batch()
    fake = generator(torch.randn(16, 4))
    d_opt.zero_grad()
    (F.softplus(critic(fake.detach())).mean() + F.softplus(-critic(x)).mean()).backward()
    d_opt.step()
    g_opt.zero_grad()
    F.softplus(-critic(fake)).mean().backward()
    g_opt.step()
""",
    "a GAN that zeroes the critic before its own loss": """
generator, critic = net(4, 4), net(4, 1)
g_opt, d_opt = torch.optim.Adam(generator.parameters(), lr=0.01), torch.optim.Adam(critic.parameters(), lr=0.01)
for step in range(60):
    x, _ = batch()
    fake = generator(torch.randn(16, 4))
    g_opt.zero_grad()
    F.softplus(-critic(fake)).mean().backward()
    g_opt.step()
    critic.zero_grad(set_to_none=False)
    (F.softplus(critic(fake.detach())).mean() + F.softplus(-critic(x)).mean()).backward()
    d_opt.step()
""",
    "two losses before two steps": """
generator, critic = net(4, 4), net(4, 1)
g_opt, d_opt = torch.optim.Adam(generator.parameters(), lr=0.01), torch.optim.Adam(critic.parameters(), lr=0.01)
for step in range(60):
    x, y = batch()
    g_opt.zero_grad(); d_opt.zero_grad()
    F.mse_loss(generator(x), x).backward()
    F.mse_loss(critic(generator(x)), y).backward()
    g_opt.step(); d_opt.step()
""",
    "accumulation and clipping": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
for step in range(120):
    x, y = batch()
    (F.mse_loss(model(x), y) / 4).backward()
    if step % 4 == 3:
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
""",
    "evaluation each epoch, done right": """
model = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(4):
    model.train()
    for step in range(60):
        x, y = batch()
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        model(batch()[0])
""",
    "a frozen backbone in evaluation mode": """
backbone = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.1)).requires_grad_(False).eval()
head = net(8, 1)
optimizer = torch.optim.Adam(head.parameters(), lr=0.01)
for step in range(120):
    x, y = batch()
    loss = F.mse_loss(head(backbone(x)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "frozen batch norm from an epoch on": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.norm, self.b = nn.Linear(4, 16), nn.BatchNorm1d(16), nn.Linear(16, 1)

    def forward(self, x):
        return self.b(torch.relu(self.norm(self.a(x))))

model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(4):
    model.train()
    if epoch > 1:
        model.norm.eval()
    for step in range(60):
        x, y = batch()
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    "attacked in evaluation mode, trained in training mode": """
model = nn.Sequential(nn.Linear(4, 16), nn.Dropout(0.2), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(120):
    x, y = batch()
    model.eval()
    moved = x.clone().requires_grad_()
    gradient, = torch.autograd.grad(F.mse_loss(model(moved), y), moved)
    model.train()
    loss = F.mse_loss(model(x + 0.1 * gradient.sign()), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "evaluation mode without dropout or batch norm": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
def evaluate():
    model.eval()
    with torch.no_grad():
        return model(batch()[0])
for step in range(60):
    x, y = batch()
    loss = F.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    evaluate()
""",
    "warm-up from 0, cosine to 0": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
warm = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(step / 10, 1.0) * max(0.0, 1 - step / 120))
for step in range(120):
    x, y = batch()
    loss = F.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    warm.step()
""",
    "restarts": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 20)
for step in range(120):
    x, y = batch()
    loss = F.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
""",
    "clients that begin at the server's weights": """
import copy
model = net()
server = copy.deepcopy(model.state_dict())
for client in range(12):
    model.load_state_dict(server)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for step in range(2):
        x, y = batch()
        loss = F.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    server = {k: 0.9 * server[k] + 0.1 * v for k, v in model.state_dict().items()}
""",
    "a new optimizer for each task": """
model = net()
for task in range(5):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(40):
        x, y = batch()
        loss = F.mse_loss(model(x), y * task)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
""",
    "staged unfreezing": """
backbone, head = net(4, 8), net(8, 1)
backbone.requires_grad_(False)
optimizer = torch.optim.Adam([*backbone.parameters(), *head.parameters()], lr=0.01)
for step in range(120):
    if step == 60:
        backbone.requires_grad_(True)
    x, y = batch()
    loss = F.mse_loss(head(backbone(x)), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "experts that are idle for long": """
experts = nn.ModuleList([net(4, 1) for _ in range(4)])
optimizer = torch.optim.Adam(experts.parameters(), lr=0.01)
for step in range(120):
    x, y = batch()
    loss = F.mse_loss(experts[0 if step < 100 else 2](x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "evaluation without gradients of what is trained as well": """
encoder, head, probe = net(4, 8), net(8, 1), net(8, 1)
optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters(), *probe.parameters()], lr=0.01)
for step in range(120):
    x, y = batch()
    h = encoder(x)
    loss = F.mse_loss(head(h), y) + F.mse_loss(probe(h.detach()), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        with torch.no_grad():
            F.mse_loss(head(encoder(x)), y)
""",
    "pairs of everything, on purpose": """
model = net(4, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(60):
    x, y = batch()
    score = model(x)
    margin = score - score.T
    wanted = torch.sign(y - y.T)
    loss = F.softplus(-margin * wanted).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "distances to prototypes": """
model = net(4, 1)
prototypes = nn.Parameter(torch.randn(16))
optimizer = torch.optim.Adam([*model.parameters(), prototypes], lr=0.01)
for step in range(60):
    x, y = batch()
    distance = (model(x) - prototypes).square()
    pairs = model(x).squeeze(1)[:, None] - model(x)[:, 0]
    loss = distance.min(1).values.mean() + (distance - y).abs().mean() + pairs.abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "quantiles": """
model = net(4, 16)
levels = torch.linspace(0.05, 0.95, 16)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(60):
    x, y = batch()
    error = y - model(x)
    loss = torch.maximum(levels * error, (levels - 1) * error).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "a constant in the loss": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
shift = torch.tensor(0.5)
best = None
for step in range(60):
    x, y = batch()
    loss = (F.mse_loss(model(x), y) - shift).abs() + shift
    if best is not None:
        loss = loss - 0.0 * best
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    best = loss.detach()
""",
    "a flooded loss and a baseline": """
policy = net(4, 2)
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
baseline = torch.zeros(())
for step in range(60):
    x, y = batch()
    dist = torch.distributions.Categorical(logits=policy(x))
    action = dist.sample()
    reward = (action == (y[:, 0] > 0)).float()
    baseline = 0.9 * baseline + 0.1 * reward.mean()
    loss = -(dist.log_prob(action) * (reward - baseline)).mean() - 0.01 * dist.entropy().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "attention and a loss of probabilities": """
class Attends(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.v = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x):
        return torch.softmax(self.q(x) @ x.T, -1) @ self.v(x)

model = Attends()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(60):
    x, y = batch()
    logits = model(x)
    loss = F.nll_loss(torch.log(torch.softmax(logits, 1)), torch.randint(3, (16,)))
    loss = loss + F.cross_entropy(10 * torch.tanh(logits), torch.randint(3, (16,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "losses kept as numbers, and a window of them": """
from collections import deque
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
history, recent, total = [], deque(maxlen=5), 0.0
for step in range(140):
    x, y = batch()
    loss = F.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss.item())
    recent.append(loss)
    total += loss.detach()
""",
    "hidden states, truncated": """
cell = nn.GRUCell(4, 8)
head = nn.Linear(8, 1)
optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=0.01)
h = torch.zeros(16, 8)
for step in range(120):
    h = h.detach()
    loss = 0.0
    for _ in range(3):
        x, y = batch()
        h = cell(x, h)
        loss = loss + F.mse_loss(head(h), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "a term that is detached where it is added": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    x, y = batch()
    out = model(x)
    loss = F.mse_loss(out, y)
    loss = loss + out.detach().abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "LBFGS with its closure": """
model = net()
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)
x, y = batch()
def closure():
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    return loss
for step in range(12):
    optimizer.step(closure)
""",
}
