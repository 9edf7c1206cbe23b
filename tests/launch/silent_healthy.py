"""Trainings in order, each the neighbour of one that is not: nothing may be said of them. `HEAD` stands before each."""

HEALTHY = {
    "a generator with two backwards for each step, and a critic": """
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
    g_loss = -critic(sample).mean()
    g_loss.backward()
    F.mse_loss(generator(anchor), target).backward()
    g_opt.step()
""",
    "a critic that steps in some turns only, and is zeroed in each": """
generator, critic = net(4, 4), net(4, 1)
g_opt = torch.optim.Adam(generator.parameters(), lr=0.002)
c_opt = torch.optim.Adam(critic.parameters(), lr=0.002)
for step in range(40):
    x, _ = batch()
    g_opt.zero_grad()
    g_loss = -critic(generator(torch.randn(len(x), 4))).mean()
    g_loss.backward()
    g_opt.step()
    c_opt.zero_grad()
    c_loss = critic(generator(torch.randn(len(x), 4)).detach()).mean() - critic(x).mean()
    c_loss.backward()
    if step % 5 == 4:
        c_opt.step()
""",
    "a critic whose backward comes before the step of the generator, its step after it": """
generator, critic = net(4, 4), net(4, 1)
g_opt = torch.optim.Adam(generator.parameters(), lr=0.002)
c_opt = torch.optim.Adam(critic.parameters(), lr=0.002)
for step in range(40):
    x, _ = batch()
    sample = generator(torch.randn(len(x), 4))
    g_opt.zero_grad()
    (-critic(sample).mean()).backward()
    c_opt.zero_grad()
    c_loss = critic(sample.detach()).mean() - critic(x).mean()
    c_loss.backward()
    g_opt.step()
    c_opt.step()
""",
    "the size of a critic's gradients, which are read and thrown away": """
generator, critic = net(4, 4), net(4, 1)
g_opt = torch.optim.Adam(generator.parameters(), lr=0.002)
c_opt = torch.optim.Adam(critic.parameters(), lr=0.002)
sizes = []
for step in range(40):
    x, _ = batch()
    sample = generator(torch.randn(len(x), 4))
    c_opt.zero_grad()
    (critic(sample.detach()).mean() - critic(x).mean()).backward()
    c_opt.step()
    g_opt.zero_grad()
    (-critic(sample).mean()).backward()
    g_opt.step()
    c_opt.zero_grad()
    critic(x).mean().backward()
    sizes.append(sum(p.grad.norm().item() for p in critic.parameters()))
    g_opt.zero_grad()
    F.mse_loss(generator(x), x).backward()
    g_opt.step()
""",
    "a perturbation with an optimizer, whose model is trained in turns with it": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
patch = nn.Parameter(torch.zeros(4))
patch_opt = torch.optim.SGD([patch], lr=0.01)
for step in range(40):
    x, y = batch()
    patch_opt.zero_grad()
    (-F.mse_loss(model(x + patch), y)).backward()
    patch_opt.step()
    optimizer.zero_grad()
    F.mse_loss(model(x + patch.detach()), y).backward()
    optimizer.step()
""",
    "an actor and a critic, each with a loss that both of a function compute": """
body, actor, critic = net(4, 8), nn.Linear(8, 3), nn.Linear(8, 1)
a_opt = torch.optim.Adam([*body.parameters(), *actor.parameters()], lr=0.002)
c_opt = torch.optim.Adam(critic.parameters(), lr=0.002)
for step in range(40):
    x, y = batch()
    c_loss = F.mse_loss(critic(body(x).detach()), y)
    c_opt.zero_grad()
    c_loss.backward()
    c_opt.step()
    chosen = torch.distributions.Categorical(logits=actor(body(x)))
    took = chosen.sample()
    with torch.no_grad():
        advantage = y[:, 0] - critic(body(x))[:, 0]
    a_opt.zero_grad()
    (-(chosen.log_prob(took) * advantage).mean()).backward()
    a_opt.step()
""",
    "a probe that is trained on what an encoder computes, every few steps of it": """
encoder, head, probe = net(4, 8), nn.Linear(8, 1), nn.Linear(8, 1)
opt = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=0.002)
probe_opt = torch.optim.Adam(probe.parameters(), lr=0.002)
for step in range(40):
    x, y = batch()
    opt.zero_grad()
    features = encoder(x)
    F.mse_loss(head(features), y).backward()
    opt.step()
    F.mse_loss(probe(features.detach()), x.sum(1, keepdim=True)).backward()
    if step % 4 == 3:
        probe_opt.step()
        probe_opt.zero_grad()
""",
    "a distillation at a temperature that is divided where it is computed": """
teacher, student, T, accumulate = net(4, 3).requires_grad_(False), net(4, 3), 2.0, 4
optimizer = torch.optim.SGD(student.parameters(), lr=0.05)
for step in range(32):
    x, _ = batch()
    wanted = F.softmax(teacher(x) / T, -1)
    loss = F.kl_div(F.log_softmax(student(x) / T, -1), wanted, reduction="batchmean") * T**2 / accumulate
    loss.backward()
    if (step + 1) % accumulate == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
    "advantages of one shape with the log-probabilities": """
policy, critic = net(4, 2), net(4, 1)
optimizer = torch.optim.Adam([*policy.parameters(), *critic.parameters()], lr=0.01)
for step in range(20):
    x, y = batch()
    dist = torch.distributions.Categorical(logits=policy(x))
    action, value = dist.sample(), critic(x).squeeze(1)
    advantage = y.squeeze(1) - value.detach()
    loss = -(dist.log_prob(action) * advantage).mean() + F.mse_loss(value, y.squeeze(1))
    $update
""",
    "differences of all pairs without gradients, as weights of each": """
model, critic = net(), net()
optimizer = torch.optim.Adam([*model.parameters(), *critic.parameters()], lr=0.01)
for step in range(20):
    x, y = batch()
    with torch.no_grad():
        score = critic(x).squeeze(1)
        margins = score - score.unsqueeze(1)
    loss = (margins.clamp(min=0) * model(x).squeeze(1)).mean() + F.mse_loss(critic(x), y)
    $update
""",
    "differences of all pairs by a new axis, with what is detached": """
model, critic = net(), net()
optimizer = torch.optim.Adam([*model.parameters(), *critic.parameters()], lr=0.01)
for step in range(20):
    x, y = batch()
    score = critic(x)[:, 0]
    margins = score.detach()[:, None] - y.squeeze(1)
    loss = (margins.abs() * model(x).squeeze(1)).mean() + F.mse_loss(score, y.squeeze(1))
    $update
""",
    "the advantages of each sample summed over the others": """
model, critic = net(), net()
optimizer = torch.optim.Adam([*model.parameters(), *critic.parameters()], lr=0.01)
for step in range(20):
    x, y = batch()
    with torch.no_grad():
        gaps = y.squeeze(1) - critic(x)
    loss = ((gaps * model(x).squeeze(1)).sum(1) ** 2).mean() + F.mse_loss(critic(x), y)
    $update
""",
    "a kernel without gradients that weighs what each sample has": """
model, body = net(), net(4, 8)
optimizer = torch.optim.Adam([*model.parameters(), *body.parameters()], lr=0.01)
for step in range(20):
    x, y = batch()
    with torch.no_grad():
        features = body(x)
        kernel = torch.exp(-torch.cdist(features, features))
    loss = (kernel * model(x).squeeze(1)).mean() + F.mse_loss(body(x).sum(1), y.squeeze(1))
    $update
""",
    "as many samples as features, with a network's rows that are centered": """
model, teacher = net(4, 16), net(4, 16).requires_grad_(False)
scale = nn.Parameter(torch.ones(16))
optimizer = torch.optim.Adam([*model.parameters(), scale], lr=0.01)
for step in range(20):
    x, y = batch()
    wanted = teacher(x)
    wanted = wanted - wanted.mean(1, keepdim=True)
    loss = (wanted * scale).mean() + F.mse_loss(model(x), wanted)
    $update
""",
    "a rate of each sample that is squared without gradients": """
model, critic = net(), net()
optimizer = torch.optim.Adam([*model.parameters(), *critic.parameters()], lr=0.01)
for step in range(20):
    x, y = batch()
    gap = (y - critic(x)).detach()
    loss = (gap * model(x)).mean() + F.mse_loss(critic(x), y)
    $update
""",
    "a follower whose loop gives its variables other names for the data": """
model, slow = net(), net().requires_grad_(False)

def follow():
    for p, q in zip(slow.parameters(), model.parameters()):
        p = p.data
        q = q.detach()
        p.mul_(0.9).add_(q, alpha=0.1)

optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    $step
    follow()
""",
    "a follower that binds what its in-place method returns": """
model, slow = net(), net().requires_grad_(False)

def follow():
    for p, q in zip(slow.parameters(), model.parameters()):
        p = p.data.lerp_(q.detach(), 0.1)

optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    $step
    follow()
""",
    "a follower whose gaps are listed by the variable of their loop": """
model, slow = net(), net().requires_grad_(False)

def follow():
    gaps = []
    for p, q in zip(slow.parameters(), model.parameters()):
        p = (p - q).detach()
        gaps.append(p.norm())
    with torch.no_grad():
        for p, q in zip(slow.parameters(), model.parameters()):
            p.copy_(0.9 * p + 0.1 * q)
    return gaps

optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    $step
    follow()
""",
    "a follower whose last gap is read below the loop": """
model, slow = net(), net().requires_grad_(False)

def follow():
    for p, q in zip(slow.parameters(), model.parameters()):
        with torch.no_grad():
            p.lerp_(q, 0.1)
        q = (p - q).abs().max()
    return q

optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    $step
    follow()
""",
    "a follower beside a function that nobody calls": """
model, slow = net(), net().requires_grad_(False)

def never_called(one, other):
    for p, q in zip(one.parameters(), other.parameters()):
        p = 0.9 * p + 0.1 * q

def follow():
    with torch.no_grad():
        for p, q in zip(slow.parameters(), model.parameters()):
            p.lerp_(q, 0.1)

optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    $step
    follow()
""",
    "a follower whose parameters are moved first": """
model, slow = net(), net().requires_grad_(False)

def follow():
    for p, q in zip(slow.parameters(), model.parameters()):
        p.data = 0.9 * p.data + 0.1 * q.data
        q = q.to("cpu")

optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    $step
    follow()
""",
    "a follower that counts in the variable of its loop": """
model, slow = net(), net().requires_grad_(False)

def follow():
    for p, q in zip(slow.parameters(), model.parameters()):
        p.data.copy_(0.9 * p.data + 0.1 * q.data)
        q = None

optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    $step
    follow()
""",
    "a mixture whose weights add up over its components": """
model = net(4, 15)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    x, y = batch()
    mean, scale, weight = model(x).chunk(3, 1)
    parts = torch.distributions.Normal(mean, scale.exp()).log_prob(y)
    loss = -torch.logsumexp(F.log_softmax(weight, 1) + parts, 1).mean()
    $update
""",
    "a mixture of softmaxes, whose components are over classes": """
model = net(4, 3 * 7 + 3)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    x, _ = batch()
    out = model(x)
    each, weight = F.log_softmax(out[:, :21].view(16, 3, 7), 2), F.log_softmax(out[:, 21:], 1)
    loss = F.nll_loss(torch.logsumexp(each + weight.unsqueeze(2), 1), x.argmax(1))
    $update
""",
    "a mixture of softmaxes whose weights are written out for each class": """
model = net(4, 3 * 7 + 3)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    x, _ = batch()
    out = model(x)
    each, weight = F.log_softmax(out[:, :21].view(16, 3, 7), 2), F.log_softmax(out[:, 21:], 1)
    loss = F.nll_loss(torch.logsumexp(each + weight.unsqueeze(2).expand(16, 3, 7), 1), x.argmax(1))
    $update
""",
    "states that are summed out of what comes after them": """
class Chain(nn.Module):
    def __init__(self):
        super().__init__()
        self.turn, self.first = nn.Parameter(torch.randn(5, 5)), nn.Parameter(torch.randn(5))
        self.emit = nn.Parameter(torch.randn(5, 7))

    def forward(self, symbols):
        alpha, emit = self.first.log_softmax(0), self.emit.log_softmax(1)
        for symbol in symbols:
            alpha = torch.logsumexp(alpha[:, None] + self.turn.log_softmax(1), 0) + emit[:, symbol]
        return -alpha.logsumexp(0)

model = Chain()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    loss = model(torch.randint(7, (9,)).tolist())
    $update
""",
    "the classes of all states, each weighted by its own": """
model, prior = net(4, 7), nn.Parameter(torch.zeros(16, 1))
optimizer = torch.optim.Adam([*model.parameters(), prior], lr=0.01)
for step in range(20):
    x, _ = batch()
    whole = torch.logsumexp(F.log_softmax(model(x), 1) + F.log_softmax(prior, 0), 0)
    loss = -(torch.full((7,), 1 / 7) * whole).sum()
    $update
""",
    "a softmax of scores that are weighed and summed over other scores": """
model, other = net(4, 5), net(4, 5)
optimizer = torch.optim.Adam([*model.parameters(), *other.parameters()], lr=0.01)
for step in range(20):
    x, y = batch()
    loss = F.mse_loss((F.softmax(model(x), 1) * other(x)).sum(1, keepdim=True), y)
    $update
""",
    "scores that are normalized both ways, for an assignment": """
model = net(4, 6)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    x, _ = batch()
    scores = model(x)
    both = F.log_softmax(scores, 0) + F.log_softmax(scores, 1)
    loss = -torch.logsumexp(both, 1).mean()
    $update
""",
    "two names of one network, of which neither is copied": """
class Shared:
    def __init__(self, model):
        self.encoder = model
        self.decoder = model
        self.best = net()

shared = Shared(net())
optimizer = torch.optim.Adam(shared.encoder.parameters(), lr=0.01)
for step in range(40):
    x, y = batch()
    loss = F.mse_loss(shared.encoder(x), y) + F.mse_loss(shared.decoder(x + 1), y)
    $update
    if step % 10 == 9:
        shared.best.load_state_dict(shared.encoder.state_dict())
""",
    "a distillation at a temperature that is divided first": """
teacher, student, T, accumulate = net(4, 3).requires_grad_(False), net(4, 3), 2.0, 4
optimizer = torch.optim.SGD(student.parameters(), lr=0.05)
for step in range(32):
    x, _ = batch()
    wanted = F.softmax(teacher(x) / T, -1)
    loss = F.kl_div(F.log_softmax(student(x) / T, -1), wanted, reduction="batchmean") / accumulate * T**2
    loss.backward()
    if (step + 1) % accumulate == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
    "a distillation at a temperature with a share of a step for its weight": """
teacher, student, T, accumulate = net(4, 3).requires_grad_(False), net(4, 3), 2.0, 4
optimizer = torch.optim.SGD(student.parameters(), lr=0.05)
for step in range(32):
    x, _ = batch()
    wanted = F.softmax(teacher(x) / T, -1)
    loss = F.kl_div(F.log_softmax(student(x) / T, -1), wanted, reduction="batchmean") * T**2 * 0.25
    loss.backward()
    if (step + 1) % accumulate == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
    "a distillation of a sum of batches, with a rate for that": """
teacher, student, T, accumulate = net(4, 3).requires_grad_(False), net(4, 3), 2.0, 4
optimizer = torch.optim.SGD(student.parameters(), lr=0.05)
for step in range(32):
    x, _ = batch()
    wanted = F.softmax(teacher(x) / T, -1)
    loss = F.kl_div(F.log_softmax(student(x) / T, -1), wanted, reduction="sum") * T**2
    loss.backward()
    if (step + 1) % accumulate == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
    "a distillation whose gradients are divided before the step": """
teacher, student, T, accumulate = net(4, 3).requires_grad_(False), net(4, 3), 2.0, 4
optimizer = torch.optim.SGD(student.parameters(), lr=0.05)
for step in range(32):
    x, _ = batch()
    wanted = F.softmax(teacher(x) / T, -1)
    loss = F.kl_div(F.log_softmax(student(x) / T, -1), wanted, reduction="batchmean") * T**2
    loss.backward()
    if (step + 1) % accumulate == 0:
        for p in student.parameters():
            p.grad.div_(accumulate)
    if (step + 1) % accumulate == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
    "a distillation that is accumulated for Adam": """
teacher, student, T, accumulate = net(4, 3).requires_grad_(False), net(4, 3), 2.0, 4
optimizer = torch.optim.Adam(student.parameters(), lr=0.05)
for step in range(32):
    x, _ = batch()
    wanted = F.softmax(teacher(x) / T, -1)
    loss = F.kl_div(F.log_softmax(student(x) / T, -1), wanted, reduction="batchmean") * T**2
    loss.backward()
    if (step + 1) % accumulate == 0:
        optimizer.step()
        optimizer.zero_grad()
""",
    "a critic whose target is computed without gradients": """
critic, gamma = net(4, 1), 0.95
optimizer = torch.optim.Adam(critic.parameters(), lr=0.002)
for step in range(12):
    x, after, reward = torch.randn(16, 4), torch.randn(16, 4), torch.randn(16)
    with torch.no_grad():
        target = reward + gamma * critic(after).squeeze(-1)
    loss = (target - critic(x).squeeze(-1)).pow(2).mean()
    $update
""",
    "a Q-network with a target network and a value that is detached": """
import copy

q = net(4, 3)
target_q = copy.deepcopy(q).requires_grad_(False)
optimizer, gamma = torch.optim.Adam(q.parameters(), lr=0.001), 0.99
for step in range(12):
    x, after, reward, action = torch.randn(16, 4), torch.randn(16, 4), torch.randn(16), torch.randint(3, (16, 1))
    best = q(after).argmax(1, keepdim=True)
    target = reward + gamma * target_q(after).gather(1, best).squeeze(1)
    loss = F.smooth_l1_loss(q(x).gather(1, action).squeeze(1), target)
    $update
    if step % 4 == 3:
        target_q.load_state_dict(q.state_dict())
""",
    "a damped oscillator that is forced, as a residual": """
u = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer, gamma = torch.optim.Adam(u.parameters(), lr=0.001), 0.3
for step in range(12):
    t = torch.rand(32, 1, requires_grad=True)
    x = u(t)
    (dx,) = torch.autograd.grad(x.sum(), t, create_graph=True)
    (ddx,) = torch.autograd.grad(dx.sum(), t, create_graph=True)
    rhs = torch.cos(3 * t.detach()) + gamma * dx
    loss = (ddx - rhs).pow(2).mean()
    $update
""",
    "growth with a source, as a residual of first order": """
u = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer, gamma = torch.optim.Adam(u.parameters(), lr=0.001), 0.3
for step in range(12):
    t = torch.rand(32, 1, requires_grad=True)
    x = u(t)
    (dx,) = torch.autograd.grad(x.sum(), t, create_graph=True)
    loss = F.mse_loss(dx, 1.0 + gamma * x) + u(torch.zeros(1, 1)).pow(2).mean()
    $update
""",
    "a Bellman residual that is minimized on purpose": """
critic, gamma = net(4, 1), 0.95
optimizer = torch.optim.Adam(critic.parameters(), lr=0.002)

def residual_gradient(x, after, reward):
    return (reward + gamma * critic(after).squeeze(-1) - critic(x).squeeze(-1)).pow(2).mean()

for step in range(12):
    loss = residual_gradient(torch.randn(16, 4), torch.randn(16, 4), torch.randn(16))
    $update
""",
    "rewards that are learned with the values, without a reward of the environment": """
q, gamma = net(4, 3), 0.99
optimizer = torch.optim.Adam(q.parameters(), lr=0.001)
for step in range(12):
    x, after, action = torch.randn(16, 4), torch.randn(16, 4), torch.randint(3, (16, 1))
    reward = q(x).gather(1, action).squeeze(1) - gamma * q(after).logsumexp(1)
    loss = -reward.mean() + 0.25 * reward.pow(2).mean()
    $update
""",
    "two heads of a network, one of which follows the other scaled and shifted": """
body, first, second = net(4, 8), nn.Linear(8, 1), nn.Linear(8, 1)
optimizer = torch.optim.Adam([*body.parameters(), *first.parameters(), *second.parameters()], lr=0.002)
gamma, beta = 0.9, torch.tensor(0.1)
for step in range(12):
    x, y = batch()
    h = body(x)
    loss = F.mse_loss(first(h), y) + F.mse_loss(second(h), beta + gamma * first(h))
    $update
""",
    "predicted rewards that are discounted and compared with what came": """
model, gamma = net(4, 1), 0.9
optimizer = torch.optim.Adam(model.parameters(), lr=0.002)
for step in range(12):
    rewards, total = model(torch.randn(5, 4)).squeeze(-1), 0.0
    for r in reversed(rewards.unbind()):
        total = r + gamma * total
    loss = (total - torch.randn(())).pow(2)
    $update
""",
    "values of two moments whose distance decays, with a step of noise": """
model, gamma = net(4, 2), 0.9
optimizer = torch.optim.Adam(model.parameters(), lr=0.002)
for step in range(12):
    x = torch.randn(16, 4)
    z, after = model(x), model(x + 0.1)
    loss = F.mse_loss(after, gamma * z) + (z.std(0) - 1).pow(2).mean()
    $update
""",
    "an estimate of its own that a denoiser is given in half of its steps": """
class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.noisy, self.estimate, self.out = nn.Linear(4, 16), nn.Linear(4, 16), nn.Linear(16, 4)

    def forward(self, z, before=None):
        h = self.noisy(z)
        if before is not None:
            h = h + self.estimate(before)
        return self.out(F.silu(h))

model = Denoiser()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
for step in range(8):
    x = torch.randn(16, 4)
    z, before = x + torch.randn_like(x), None
    if step % 2:
        with torch.no_grad():
            before = model(z).detach()
    loss = F.mse_loss(model(z, before), x)
    $update
""",
    "an estimate of its own that a denoiser is given in one of eight steps": """
class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.noisy, self.estimate, self.out = nn.Linear(4, 16), nn.Linear(4, 16), nn.Linear(16, 4)

    def forward(self, z, before=None):
        h = self.noisy(z)
        if before is not None:
            h = h + self.estimate(before)
        return self.out(F.silu(h))

def fit(model):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
    for step in range(20):
        x = torch.randn(16, 4)
        z, before = x + torch.randn_like(x), None
        if step % 8 == 5:
            with torch.no_grad():
                before = model(z).detach()
        loss = F.mse_loss(model(z, before), x)
        $update

fit(Denoiser())
""",
    "a body that the optimizer is given once the head has settled": """
body, head = nn.Linear(4, 16), nn.Linear(16, 1)
optimizer = torch.optim.SGD(head.parameters(), lr=0.05)
for step in range(40):
    if step == 20:
        optimizer.add_param_group({"params": body.parameters(), "lr": 0.01})
    x, y = batch()
    loss = F.mse_loss(head(torch.tanh(body(x))), y)
    body.zero_grad()
    $update
""",
    "words that are kept by a mask over their gradients, without weight decay": """
words, score = nn.Embedding(12, 8), nn.Linear(8, 3).requires_grad_(False)
optimizer = torch.optim.AdamW(words.parameters(), lr=0.05, weight_decay=0.0)
old = torch.arange(12) < 10
for step in range(12):
    picked, y = torch.randint(0, 12, (16,)), torch.randint(3, (16,))
    loss = F.cross_entropy(score(words(picked)), y)
    optimizer.zero_grad()
    loss.backward()
    words.weight.grad[old] = 0
    optimizer.step()
""",
    "a word for padding that stays zero, beside words that no batch has": """
words, score = nn.Embedding(40, 8), nn.Linear(8, 3)
with torch.no_grad():
    words.weight[0] = 0
optimizer = torch.optim.AdamW([*words.parameters(), *score.parameters()], lr=0.05)
for step in range(12):
    picked, y = torch.randint(0, 12, (16,)), torch.randint(3, (16,))
    loss = F.cross_entropy(score(words(picked)), y)
    optimizer.zero_grad()
    loss.backward()
    words.weight.grad[0] = 0
    optimizer.step()
""",
    "a layer that is frozen with its gradients taken away": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.95)
for step in range(40):
    x, y = batch()
    if step == 10:
        model[0].requires_grad_(False)
        model[0].weight.grad = model[0].bias.grad = None
    optimizer.zero_grad(set_to_none=False)
    F.mse_loss(model(x), y).backward()
    optimizer.step()
""",
    "a critic that is frozen for the other loss when one optimizer steps for both": """
maker, critic = net(4, 4), net()
optimizer = torch.optim.SGD([*maker.parameters(), *critic.parameters()], lr=0.01, momentum=0.9)
for step in range(24):
    x, y = batch()
    optimizer.zero_grad()
    F.mse_loss(critic(x + maker(x).detach()), y).backward()
    critic.requires_grad_(False)
    (0.1 * critic(x + maker(x)).square().mean()).backward()
    optimizer.step()
    critic.requires_grad_(True)
""",
    "a student of a teacher that was trained before, with a value of the last step in its loss": """
teacher, student = net(outputs=3, width=32), net(outputs=3)
first = torch.optim.Adam(teacher.parameters(), lr=0.01)
for step in range(12):
    first.zero_grad()
    F.cross_entropy(teacher(torch.randn(16, 4)), torch.randint(3, (16,))).backward()
    first.step()

optimizer = torch.optim.Adam(student.parameters(), lr=0.01)
for step in range(12):
    x, y = torch.randn(16, 4), torch.randint(3, (16,))
    with torch.no_grad():
        wanted = F.softmax(teacher(x) / 3, dim=1)
        entropy = -(wanted * wanted.log()).sum(1).mean()
    made = student(x)
    soft = F.kl_div(F.log_softmax(made / 3, dim=1), wanted, reduction="batchmean")
    loss = F.cross_entropy(made, y) + soft / entropy
    $update
""",
    "a shared weight, tied again after a checkpoint was assigned": """
class Tagger(nn.Module):
    def __init__(self, tied=True):
        super().__init__()
        self.look_up, self.score = nn.Embedding(12, 8), nn.Linear(8, 12, bias=False)
        if tied:
            self.score.weight = self.look_up.weight

    def forward(self, letters):
        return self.score(torch.tanh(self.look_up(letters)))

saved = {name: value.clone() for name, value in Tagger().state_dict().items()}
model = Tagger()
model.load_state_dict(saved, assign=True)
model.score.weight = model.look_up.weight
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(8):
    letters = torch.randint(0, 12, (16,))
    loss = F.cross_entropy(model(letters), (letters + 1) % 12)
    $update
""",
    "a shared weight whose layer is replaced for another task": """
class Tagger(nn.Module):
    def __init__(self, tied=True):
        super().__init__()
        self.look_up, self.score = nn.Embedding(12, 8), nn.Linear(8, 12, bias=False)
        if tied:
            self.score.weight = self.look_up.weight

    def forward(self, letters):
        return self.score(torch.tanh(self.look_up(letters)))

model = Tagger()
model.score = nn.Linear(8, 12, bias=False)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(8):
    letters = torch.randint(0, 12, (16,))
    loss = F.cross_entropy(model(letters), (letters + 1) % 12)
    $update
""",
    "weights that are not tied, though they begin alike": """
class Tagger(nn.Module):
    def __init__(self, tied=True):
        super().__init__()
        self.look_up, self.score = nn.Embedding(12, 8), nn.Linear(8, 12, bias=False)
        if tied:
            self.score.weight = self.look_up.weight

    def forward(self, letters):
        return self.score(torch.tanh(self.look_up(letters)))

model = Tagger(tied=False)
model.score.load_state_dict({"weight": model.look_up.weight.detach().clone()})
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(8):
    letters = torch.randint(0, 12, (16,))
    loss = F.cross_entropy(model(letters), (letters + 1) % 12)
    $update
""",
    "a network that is trained, then goes on as its own successor's teacher": """
teacher, model = net(), net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for generation in range(3):
    for step in range(12):
        x, y = batch()
        with torch.no_grad():
            goal = teacher(x)
        loss = F.mse_loss(model(x), 0.5 * (y + goal))
        $update
    teacher, model = model, net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
""",
    "one loss for two optimizers that share an encoder": """
encoder, head, other = net(4, 8), nn.Linear(8, 1), nn.Linear(8, 1)
first = torch.optim.Adam([*encoder.parameters(), *head.parameters()], lr=0.01)
second = torch.optim.Adam(other.parameters(), lr=0.01)
for step in range(20):
    x, y = batch()
    made = encoder(x)
    first.zero_grad()
    F.mse_loss(head(made), y).backward()
    first.step()
    second.zero_grad()
    F.mse_loss(other(made.detach()), -y).backward()
    second.step()
""",
    "statistics of features and of samples, with as many of both": """
encode, head = nn.Linear(4, 16), nn.Linear(16, 3)
optimizer = torch.optim.Adam([*encode.parameters(), *head.parameters()], lr=0.001)
for step in range(8):
    x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
    h = encode(x)
    h = (h - h.mean(0)) / (h.std(0) + 1e-3)
    h = h / (h.norm(dim=1, keepdim=True) + 1e-6)
    h = (h.T * h.abs().amax(1)).T
    loss = F.cross_entropy(head(h), y) + 0.1 * (h @ h.T / h.square().sum(1)).diagonal().mean()
    $update
""",
    "a graph that is learnt, scaled by its degrees on both sides": """
nodes, encode, head = nn.Parameter(torch.randn(16, 4)), nn.Linear(4, 16), nn.Linear(8, 3)
mix = nn.Linear(4, 8)
optimizer = torch.optim.Adam([nodes, *encode.parameters(), *head.parameters(), *mix.parameters()], lr=0.001)
x, y = torch.randn(16, 4), torch.randint(0, 3, (16,))
for step in range(8):
    near = torch.relu(nodes @ nodes.T) + 1e-3
    scale = near.sum(1).rsqrt()
    made = torch.sigmoid(encode(nodes))
    both = made.sum(1).rsqrt()
    spread = scale[:, None] * near * scale + both.unsqueeze(1) * made * both
    loss = F.cross_entropy(head(torch.relu(spread @ mix(x))), y)
    $update
""",
    "a cache of keys, with a mask that ends at the last of them": """
class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.cache = nn.Linear(16, 48), None

    def forward(self, x):
        q, k, v = (each.unflatten(-1, (2, 8)).transpose(1, 2) for each in self.qkv(x).chunk(3, -1))
        if self.cache is not None:
            k, v = torch.cat([self.cache[0], k], 2), torch.cat([self.cache[1], v], 2)
        self.cache = k.detach(), v.detach()
        return F.scaled_dot_product_attention(q, k, v, is_causal=q.size(-2) == k.size(-2)).transpose(1, 2).flatten(-2)

embed, layer, head = nn.Embedding(20, 16), Layer(), nn.Linear(16, 20)
optimizer = torch.optim.Adam([*embed.parameters(), *layer.parameters(), *head.parameters()], lr=0.001)
for step in range(8):
    tokens = torch.randint(0, 20, (4, 10))
    layer.cache, loss = None, 0
    for at, end in ((0, 8), (8, 9)):
        logits = head(layer(embed(tokens[:, at:end])))
        loss = loss + F.cross_entropy(logits.flatten(0, 1), tokens[:, at + 1 : end + 1].flatten())
    $update
""",
    "a target network whose output keeps its graph": """
import copy
critic = net()
target = copy.deepcopy(critic)
optimizer = torch.optim.Adam(critic.parameters(), lr=0.01)
for step in range(120):
    x, y = batch()
    loss = F.smooth_l1_loss(critic(x), 0.5 * y + 0.5 * target(x.roll(1, 0)))
    $update
    if step % 20 == 0:
        target.load_state_dict(critic.state_dict())
""",
    "a soft target in a class, and an average of the weights, both with their graphs": """
import copy
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


class Agent:
    def __init__(self):
        self.critic, self.aim = net(), net()
        self.aim.load_state_dict(self.critic.state_dict())
        self.ema = AveragedModel(self.critic, multi_avg_fn=get_ema_multi_avg_fn(0.9))
        self.optimizer = torch.optim.Adam(self.critic.parameters(), lr=0.01)

    def follow(self):
        with torch.no_grad():
            [p.lerp_(q, 0.05) for p, q in zip(self.aim.parameters(), self.critic.parameters())]
        self.ema.update_parameters(self.critic)

    def learn(self, x, y):
        value = self.critic(x)
        loss = F.mse_loss(value, 0.5 * y + 0.5 * self.aim(x.roll(1, 0))) + 0.1 * F.mse_loss(value, self.ema(x))
        $update self.optimizer
        self.follow()


agent = Agent()
for step in range(120):
    agent.learn(*batch())
""",
    "gradients too small for half precision, scaled": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=100.0)
scaler = torch.amp.GradScaler("cpu")
for step in range(40):
    x, y = batch()
    with torch.autocast("cpu", torch.float16):
        made = model(x)
    loss = F.mse_loss(1e-5 * made.float(), 1e-5 * y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
""",
    "a scaler that finds its scale after a dozen steps": """
model = net()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**34)
for step in range(60):
    x, y = batch()
    with torch.autocast("cpu", torch.float16):
        loss = F.mse_loss(model(x).float(), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
""",
    "small gradients in bfloat16": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=100.0)
for step in range(40):
    x, y = batch()
    with torch.autocast("cpu", torch.bfloat16):
        made = model(x)
    loss = F.mse_loss(1e-5 * made.float(), 1e-5 * y)
    $update
""",
    "a matrix that rows are fitted to, and the best weights put into a dict as copies": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
least, best = float("inf"), None
x, _ = batch()
distances = torch.cdist(x, x)
for step in range(40):
    levels = model(x)
    loss = (distances - levels - levels.T).pow(2).mean()
    $update
    if loss.item() < least:
        least, best = loss.item(), {name: tensor.clone() for name, tensor in model.state_dict().items()}
model.load_state_dict(best)
""",
    "a network that is tuned with the statistics of before": """
def fit(model, steps):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    $loop steps


@torch.no_grad()
def score(model):
    model.eval()
    x, y = batch()
    return float((model(x) - y).abs().mean())


def main():
    model = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
    fit(model, 60)
    score(model)
    model.train()
    fit(model, 20)
    model.eval()
    fit(model, 60)
    score(model)


main()
""",
    "a sigmoid for targets between 0 and 1, and noise around a relu": """
model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1), nn.Sigmoid())
counts = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1), nn.ReLU())
nn.init.ones_(counts[2].bias)
optimizer = torch.optim.Adam([*model.parameters(), *counts.parameters()], lr=0.01)
for step in range(40):
    x, y = batch()
    loss = F.mse_loss(model(x), (y > 0).float()) + F.l1_loss(counts(x), y.abs())
    loss = loss + (torch.relu(model(x)) - y).mean().abs()
    $update
""",
    "a policy whose advantage is detached, and one that is differentiated through": """
actor, critic = net(4, 2), net(4, 1)
log_alpha = nn.Parameter(torch.zeros(()))
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters(), log_alpha], lr=0.01)
for step in range(40):
    x, returns = batch()
    mean, log_std = actor(x).chunk(2, dim=1)
    policy = torch.distributions.Normal(mean, log_std.clamp(-2, 1).exp())
    action = policy.rsample()
    log_prob = policy.log_prob(action)
    advantage = returns - critic(x)
    loss = (log_alpha.exp() * log_prob - critic(x)).mean()
    loss = loss - (policy.log_prob(action.detach()) * advantage.detach()).mean()
    loss = loss + advantage.pow(2).mean()
    $update
""",
    "gates that begin shut, and frozen layers that are none of zeros": """
class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.gate, self.skip = nn.Linear(4, 32), nn.Linear(4, 32), nn.Linear(4, 32)
        nn.init.constant_(self.gate.bias, -8.0)
        nn.init.zeros_(self.skip.bias)
        self.skip.requires_grad_(False)
        self.out = nn.Linear(32, 1)
        nn.init.zeros_(self.out.weight)

    def forward(self, x):
        gate = torch.sigmoid(self.gate(x))
        return self.out(gate * torch.tanh(self.body(x)) + self.skip(x))


model = Gated()
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01)
$loop 40
""",
    "sums that begin at 0, and a target of a frozen network": """
model, frozen = net(outputs=2), net(outputs=2).requires_grad_(False)
scale = nn.Parameter(torch.ones(()), requires_grad=False)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    x, _ = batch()
    loss = torch.tensor(0.0)
    for part in x.chunk(2):
        loss = loss + F.mse_loss(model(part), frozen(part))
    loss = loss + scale * F.cosine_similarity(model(x), frozen(x)).mean()
    $update
""",
    "two networks that learn from each other by kl_div": """
one, other = net(outputs=3), net(outputs=3)
optimizer = torch.optim.Adam([*one.parameters(), *other.parameters()], lr=0.01)
for step in range(40):
    x, _ = batch()
    p, q = F.log_softmax(one(x), dim=1), F.softmax(other(x), dim=1)
    loss = F.kl_div(p, q, reduction="batchmean") + F.cross_entropy(other(x), torch.randint(3, (16,)))
    loss = loss + F.kl_div(q.log(), p.exp(), reduction="batchmean") + F.kl_div(p, p.detach(), log_target=True)
    $update
""",
    "a plain loop": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 320
""",
    "layers whose rate is 0 in the first phase": """
early, late = net(4, 4), net(4, 1)
optimizer = torch.optim.SGD([{"params": early.parameters(), "lr": 0.0}, {"params": late.parameters(), "lr": 0.01}])
for step in range(150):
    if step == 60:
        optimizer.param_groups[0]["lr"] = 0.01
    x, y = batch()
    loss = F.mse_loss(late(early(x)), y)
    $update
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
    $loop 60
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
    $update
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
    $loop 60
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
    $update
""",
    "evaluation mode without dropout or batch norm": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
def evaluate():
    model.eval()
    with torch.no_grad():
        return model(batch()[0])
$loop 60
    evaluate()
""",
    "warm-up from 0, cosine to 0": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
warm = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(step / 10, 1.0) * max(0.0, 1 - step / 120))
$loop 120
    warm.step()
""",
    "restarts": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 20)
$loop 120
    schedule.step()
""",
    "clients that begin at the server's weights": """
import copy
model = net()
server = copy.deepcopy(model.state_dict())
for client in range(12):
    model.load_state_dict(server)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    $loop 2
    server = {k: 0.9 * server[k] + 0.1 * v for k, v in model.state_dict().items()}
""",
    "a new optimizer for each task": """
model = net()
for task in range(5):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(40):
        x, y = batch()
        loss = F.mse_loss(model(x), y * task)
        $update
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
    $update
""",
    "experts that are idle for long": """
experts = nn.ModuleList([net(4, 1) for _ in range(4)])
optimizer = torch.optim.Adam(experts.parameters(), lr=0.01)
for step in range(120):
    x, y = batch()
    loss = F.mse_loss(experts[0 if step < 100 else 2](x), y)
    $update
""",
    "evaluation without gradients of what is trained as well": """
encoder, head, probe = net(4, 8), net(8, 1), net(8, 1)
optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters(), *probe.parameters()], lr=0.01)
for step in range(120):
    x, y = batch()
    h = encoder(x)
    loss = F.mse_loss(head(h), y) + F.mse_loss(probe(h.detach()), y)
    $update
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
    $update
""",
    "levels that several heads of a step are compared with": """
body, heads = net(4, 8), nn.ModuleList(nn.Linear(8, 1) for _ in range(3))
levels = torch.linspace(-1, 1, 16)
optimizer = torch.optim.Adam([*body.parameters(), *heads.parameters()], lr=0.01)
def crowding(score):
    distance = score - levels
    return torch.exp(-distance.square()).mean()
for step in range(40):
    x, y = batch()
    scores = [head(body(x)) for head in heads]
    loss = sum(F.mse_loss(score, y) + crowding(score) for score in scores)
    $update
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
    $update
""",
    "quantiles": """
model = net(4, 16)
levels = torch.linspace(0.05, 0.95, 16)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(60):
    x, y = batch()
    error = y - model(x)
    loss = torch.maximum(levels * error, (levels - 1) * error).mean()
    $update
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
    $update
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
    $update
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
    $update
""",
    "losses kept as numbers, and a window of them": """
from collections import deque
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
history, recent, total = [], deque(maxlen=5), 0.0
$loop 140
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
    $update
""",
    "a term that is detached where it is added": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    x, y = batch()
    out = model(x)
    loss = F.mse_loss(out, y)
    loss = loss + out.detach().abs().mean()
    $update
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
    "an encoder that two heads train, each with an optimizer of its own": """
encoder, first, second = net(4, 8), net(8, 1), net(8, 1)
e_opt = torch.optim.Adam(encoder.parameters(), lr=0.01)
a_opt, b_opt = torch.optim.Adam(first.parameters(), lr=0.01), torch.optim.Adam(second.parameters(), lr=0.01)
for step in range(60):
    x, y = batch()
    for each in (e_opt, a_opt, b_opt):
        each.zero_grad()
    F.mse_loss(first(encoder(x)), y).backward()
    a_opt.step()
    F.mse_loss(second(encoder(x)), y.cos()).backward()
    b_opt.step()
    e_opt.step()
""",
    "an actor through its critic, whose gradients are zeroed in time": """
actor, critic = net(4, 2), net(6, 1)
a_opt, c_opt = torch.optim.Adam(actor.parameters(), lr=0.01), torch.optim.Adam(critic.parameters(), lr=0.01)
for step in range(60):
    x, y = batch()
    q = critic(torch.cat([x, actor(x).detach()], 1))
    c_opt.zero_grad()
    F.mse_loss(q, y).backward()
    c_opt.step()
    a_opt.zero_grad()
    (-critic(torch.cat([x, actor(x)], 1)).mean()).backward()
    a_opt.step()
""",
    "attacked, and trained on the attack alone": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def attack(x, y, size=0.1):
    delta = torch.zeros_like(x, requires_grad=True)
    F.mse_loss(model(x + delta), y).backward()
    return x + size * delta.grad.sign()

for step in range(60):
    x, y = batch()
    attacked = attack(x, y)
    optimizer.zero_grad()
    F.mse_loss(model(attacked), y).backward()
    optimizer.step()
""",
    "real and fake, each with a backward of its own": """
generator, critic = net(4, 4), net(4, 1)
g_opt, d_opt = torch.optim.Adam(generator.parameters(), lr=0.01), torch.optim.Adam(critic.parameters(), lr=0.01)
for step in range(60):
    x, _ = batch()
    fake = generator(torch.randn(16, 4))
    g_opt.zero_grad()
    F.softplus(-critic(fake)).mean().backward()
    g_opt.step()
    d_opt.zero_grad()
    F.softplus(-critic(x)).mean().backward()
    F.softplus(critic(fake.detach())).mean().backward()
    d_opt.step()
""",
    "a norm that is measured after the step": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(40):
    x, y = batch()
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    norm = nn.utils.clip_grad_norm_(model.parameters(), float("inf"))
""",
    "clipped for the second of two optimizers": """
first, second = net(), net()
a_opt, b_opt = torch.optim.SGD(first.parameters(), lr=0.01), torch.optim.SGD(second.parameters(), lr=0.01)
for step in range(40):
    x, y = batch()
    a_opt.zero_grad(); b_opt.zero_grad()
    loss = F.mse_loss(first(x) + second(x), y)
    loss.backward()
    a_opt.step()
    nn.utils.clip_grad_norm_(second.parameters(), 1.0)
    b_opt.step()
""",
    "unscaled, clipped, stepped": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
for step in range(40):
    x, y = batch()
    loss = F.mse_loss(model(x), y)
    optimizer.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
""",
    "accumulated, and divided in the end": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(80):
    x, y = batch()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    if (step + 1) % 4 == 0:
        for p in model.parameters():
            p.grad /= 4
        optimizer.step()
        optimizer.zero_grad()
""",
    "the tasks of a step, one after the other": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(40):
    optimizer.zero_grad()
    for task in range(3):
        x, _ = batch()
        F.mse_loss(model(x), x.sum(1, keepdim=True) * task).backward()
    optimizer.step()
""",
    "a penalty of gradients that has a graph": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    x, y = batch()
    x.requires_grad_(True)
    slope, = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    loss = F.mse_loss(model(x), y) + 0.1 * (slope.norm(dim=1) - 1).square().mean()
    $update
""",
    "losses weighed by their gradients": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    x, y = batch()
    first, second = F.mse_loss(model(x), y), F.l1_loss(model(x), y)
    one, = torch.autograd.grad(first, model[2].weight, retain_graph=True)
    two, = torch.autograd.grad(second, model[2].weight, retain_graph=True)
    loss = first + one.norm() / (two.norm() + 1e-8) * second
    $update
""",
    "a module with an attribute that says what holds": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone, self.head = net(4, 8), nn.Linear(8, 1)
        self.requires_grad = True

    def forward(self, x):
        return self.head(self.backbone(x))

model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 40
""",
    "zeroed where a window of batches begins": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for i in range(80):
    x, y = batch()
    if i % 4 == 0:
        optimizer.zero_grad()
    (F.mse_loss(model(x), y) / 4).backward()
    if (i + 1) % 4 == 0:
        optimizer.step()
""",
    "a window of results that are let go": """
from collections import deque
model, window = net(), deque(maxlen=4)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(140):
    x, y = batch()
    window.append(model(x))
    loss = F.mse_loss(window[-1], y)
    $update
""",
    "a new optimizer with a schedule of its own": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=5)
for epoch in range(16):
    if epoch == 6:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=5)
    for _ in range(5):
        $step
    schedule.step()
""",
    "a critic that is frozen for its actor, and thawed": """
actor, critic = net(4, 2), net(6, 1)
a_opt, c_opt = torch.optim.Adam(actor.parameters(), lr=0.01), torch.optim.Adam(critic.parameters(), lr=0.01)

def train_critic(x, y):
    critic.requires_grad_(True)
    c_opt.zero_grad()
    F.mse_loss(critic(torch.cat([x, actor(x).detach()], 1)), y).backward()
    c_opt.step()

def train_actor(x):
    critic.requires_grad_(False)
    a_opt.zero_grad()
    (-critic(torch.cat([x, actor(x)], 1)).mean()).backward()
    a_opt.step()

for step in range(80):
    x, y = batch()
    train_critic(x, y)
    train_actor(x)
""",
    "layers that are frozen for good after a warm-up": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(120):
    if step == 40:
        for p in model[0].parameters():
            p.requires_grad = False
    $step
""",
    "forces as a second derivative, and an energy whose target comes of the coordinates": """
model = net(3, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    pos = torch.randn(5, 3, requires_grad=True)
    energy = model(pos).sum()
    forces = -torch.autograd.grad(energy, pos, create_graph=True)[0]
    target = (pos.detach() ** 2).sum()
    loss = (energy - target) ** 2 * 0.01 + (forces + 2 * pos.detach()).square().mean()
    $update
""",
    "softmax over experts, over rows that are no samples, and over both sides": """
experts = nn.ModuleList(net(4, 3) for _ in range(5))
gate, image, text, score = nn.Linear(4, 5), nn.Linear(4, 8), nn.Linear(4, 8), nn.Linear(4, 1)
slots = nn.Parameter(torch.randn(6, 4))
optimizer = torch.optim.Adam([*experts.parameters(), *gate.parameters(), *image.parameters(), *text.parameters(),
                              *score.parameters(), slots], lr=0.01)
for step in range(40):
    x, target = torch.randn(16, 4), torch.randint(3, (16,))
    shares = torch.softmax(gate(x).t(), dim=0)
    out = (shares.unsqueeze(-1) * torch.stack([expert(x) for expert in experts])).sum(0)
    sides = image(x) @ text(x.flip(1)).t()
    contrast = F.log_softmax(sides, 0).diagonal().mean() + F.log_softmax(sides, 1).diagonal().mean()
    bag = (torch.softmax(score(x), 0) * x).sum(0)
    attention = torch.softmax(slots @ x.t(), dim=0)
    update = (attention.unsqueeze(-1) * x).sum(1) / attention.sum(1, keepdim=True)
    importance = torch.softmax(score(x).squeeze(1), 0).detach()
    loss = (importance * F.cross_entropy(out, target, reduction="none")).sum() - contrast + bag.square().sum()
    loss = loss + F.mse_loss(update, torch.zeros(6, 4))
    $update
""",
    "attention over time that comes first, and over sequences of one": """
class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.score, self.out = nn.Linear(4, 1), nn.Linear(4, 3)

    def forward(self, h):
        alpha = F.softmax(self.score(h).squeeze(-1), dim=0)
        return self.out((alpha.unsqueeze(-1) * h).sum(dim=0))

model, score = Pool(), nn.Linear(4, 1)
optimizer = torch.optim.Adam([*model.parameters(), *score.parameters()], lr=0.01)
for step in range(40):
    h, target = torch.randn(step % 6 + 1, 16, 4), torch.randint(3, (16,))
    single = torch.softmax(score(h.transpose(0, 1)), dim=1)
    loss = F.cross_entropy(model(h), target) + (single * h.transpose(0, 1)).sum(1).square().mean()
    $update
""",
    "generators that are made anew, that never end, or are gone through once": """
def batches(n):
    for _ in range(n):
        yield batch()

def endless():
    while True:
        yield batch()

def train(model, optimizer, data, most=10):
    for i, (x, y) in enumerate(data):
        loss = F.mse_loss(model(x), y)
        $update
        if i == most:
            break

model = net()
stream, forever, chunks = batches(10), endless(), iter([batch() for _ in range(40)])
for epoch in range(4):
    loader = batches(10)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    train(model, optimizer, loader)
    train(model, optimizer, batches(10))
    train(model, optimizer, forever)
    for x, y in (next(chunks) for _ in range(10)):
        loss = F.mse_loss(model(x), y)
        $update
once = torch.optim.Adam(model.parameters(), lr=0.01)
for x, y in stream:
    for _ in range(3):
        loss = F.mse_loss(model(x), y)
        $update once
""",
    "a policy whose values were gathered, and detached": """
actor, critic = net(4, 2), net(4, 1)
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=0.01)
for step in range(20):
    log_probs, values, entropies = [], [], []
    for _ in range(5):
        x = torch.randn(4)
        policy = torch.distributions.Categorical(logits=actor(x))
        log_probs.append(policy.log_prob(policy.sample()))
        values.append(critic(x).squeeze(-1))
        entropies.append(policy.entropy())
    returns, values = torch.randn(5), torch.stack(values)
    advantage = (returns - values).detach()
    loss = -(torch.stack(log_probs) * advantage).mean() + (returns - values).square().mean()
    loss = loss - 0.01 * torch.stack(entropies).mean()
    $update
""",
    "the probability of a route, step by step, and a likelihood that a critic bounds": """
actor, critic = net(4, 3), net(4, 1)
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters()], lr=0.01)
for step in range(20):
    x, log_prob, start = torch.randn(8, 4), 0.0, torch.randn(8, 4)
    for _ in range(16):
        policy = torch.distributions.Categorical(logits=actor(x))
        chosen = policy.sample()
        log_prob = log_prob + policy.log_prob(chosen)
        x = x + 0.1 * chosen.unsqueeze(1)
    cost, expected = x.norm(dim=1), critic(start).squeeze(1)
    loss = ((cost - expected).detach() * log_prob).mean() + F.mse_loss(expected, cost)
    loss = loss + 0.1 * (log_prob + expected - cost).square().mean()
    $update
""",
    "targets, averages, references and teachers as they are meant": """
import copy

class Target:
    def __init__(self, online):
        self.target = copy.deepcopy(online)

    @torch.no_grad()
    def soft_update(self, online, tau=0.005):
        for t, p in zip(self.target.parameters(), online.parameters()):
            t.data.copy_(tau * p.data + (1 - tau) * t.data)

class Best:
    def __init__(self, model):
        self.model, self.loss = copy.deepcopy(model), float("inf")

    def update(self, model, loss):
        if loss < self.loss:
            self.loss = loss
            self.model.load_state_dict(model.state_dict())

class Anchor:
    def __init__(self, model):
        self.reference = net()
        self.reset(model)

    def reset(self, model):
        self.reference.load_state_dict(model.state_dict())

def make_teacher(model):
    teacher = net()
    teacher.load_state_dict(model.state_dict())
    return teacher.requires_grad_(False)

model = net()
teacher, late, anchor = make_teacher(model), copy.deepcopy(model), Anchor(model)
frozen = net()
frozen.load_state_dict(model.state_dict())
soft, best = Target(model), Best(model)
best.update(model, -1.0)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(300):
    x, y = batch()
    with torch.no_grad():
        goal = teacher(x) + frozen(x) + soft.target(x) + late(x) + best.model(x) + anchor.reference(x)
    loss = F.mse_loss(model(x), y) + 0.1 * F.mse_loss(model(x), goal)
    $update
    soft.soft_update(model)
    best.update(model, float(loss))
    if (step + 1) % 280 == 0:
        late.load_state_dict(model.state_dict())
""",
    "normalizations that are frozen in evaluation mode, or for the other player's step alone": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU())
        self.head = nn.Linear(16, 1)

    def forward(self, x):
        return self.head(self.body(x))

def fit(model, steps=40, frozen=False):
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01)
    for step in range(steps):
        model.train()
        if frozen:
            model.body.eval()
        $step

model = Net()
fit(model)
model.body.requires_grad_(False)
fit(model, frozen=True)

g = nn.Sequential(nn.Linear(2, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))
d = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.LeakyReLU(), nn.Linear(16, 1))
of_g, of_d = torch.optim.Adam(g.parameters(), lr=0.001), torch.optim.Adam(d.parameters(), lr=0.001)
for step in range(60):
    real, fake = torch.randn(16, 4), g(torch.randn(16, 2))
    d.requires_grad_(True)
    loss = F.softplus(-d(real)).mean() + F.softplus(d(fake.detach())).mean()
    $update of_d
    d.requires_grad_(False)
    loss = F.softplus(-d(fake)).mean()
    $update of_g
""",
    "validations of which numbers are kept, and a replay memory that grows": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
curve, memory, best = [], [], None
for epoch in range(40):
    for _ in range(6):
        $step
        memory.append(torch.zeros(1 << 18))
    valid = F.mse_loss(model(x), y)
    curve.append(float(valid.detach()))
    if best is None or curve[-1] < best[0]:
        best = curve[-1], valid
""",
    "inputs that grow by a schedule, and items that are changed in a copy": """
class Signals(torch.utils.data.Dataset):
    def __init__(self):
        self.x, self.seen = torch.randn(160, 4), torch.zeros(160)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        item = self.x[i].clone()
        item -= self.x.mean(0)
        item /= 0.5
        self.seen[i] += 1
        return item, item.sum()

model, other = net(), net()
optimizer = torch.optim.Adam([*model.parameters(), *other.parameters()], lr=0.001)
for epoch in range(12):
    total = 0.0
    for x, y in torch.utils.data.DataLoader(Signals(), batch_size=16):
        loss = F.smooth_l1_loss(model(x).squeeze(1), y) + other((epoch + 1) * x).tanh().mean()
        $update
        total += loss.item()
""",
    "a curriculum": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
for step in range(320):
    x = torch.randn(16, 4) * (1 + step / 20)
    loss = F.smooth_l1_loss(model(x), x.sum(1, keepdim=True))
    $update
""",
    "straight-through estimators": """
class Sign(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.sign()

    @staticmethod
    def backward(ctx, grad):
        return grad.clamp(-1, 1)

encoder, decoder = net(4, 8), net(8, 4)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=0.01)
for step in range(40):
    x, _ = batch()
    h = encoder(x)
    rounded = h + (torch.round(h) - h).detach()
    place = h - torch.floor(h)
    loss = F.mse_loss(decoder(rounded), x) + F.mse_loss(decoder(Sign.apply(h)), x) + 0.1 * place.mean()
    loss = loss + 0.1 * (h - h.round()).pow(2).mean()
    $update
""",
    "codes that train a decoder, of an encoder that another loss trains": """
encoder, decoder, probe = net(4, 8), net(8, 4), net(8, 1)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters(), *probe.parameters()], lr=0.01)
for step in range(40):
    x, y = batch()
    optimizer.zero_grad()
    F.mse_loss(probe(torch.tanh(encoder(x))), y).backward()
    F.mse_loss(decoder(encoder(x).sign()), x).backward()
    optimizer.step()
""",
    "hooks for a warm-up that are all removed, and hooks that mask or watch": """
model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))
handles = [p.register_hook(torch.zeros_like) for p in model[0].parameters()]
mask = (torch.rand(16, 16) > 0.9).float()
model[2].weight.register_hook(lambda grad: grad * mask)
norms = []
model[4].weight.register_hook(lambda grad: norms.append(float(grad.norm())))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(60):
    if step == 20:
        for handle in handles:
            handle.remove()
    $step
""",
    "gradients that are zeros for good reasons": """
class Low(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.a, self.b = nn.Linear(4, 8), nn.Linear(4, 2, bias=False), nn.Linear(2, 8, bias=False)
        nn.init.zeros_(self.b.weight)
        self.unused, self.out = nn.Linear(4, 8), nn.Linear(8, 1)
        self.rows = nn.Embedding(50, 8, padding_idx=0)

    def forward(self, x):
        h = self.body(x) + self.b(self.a(x)) + self.rows(torch.zeros(len(x), dtype=torch.long))
        return self.out(torch.relu(h)) + 0.0 * self.unused(x).sum()

model = Low()
model.body.weight.register_hook(lambda grad: grad.clamp(-1, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 40
""",
    "Functions that may ignore the gradient that they are given": """
class Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx, prediction, target):
        ctx.save_for_backward(2 * (prediction - target) / prediction.numel())
        return (prediction - target).pow(2).mean()

    @staticmethod
    def backward(ctx, grad_output):
        return ctx.saved_tensors[0], None

class Each(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.pow(2)

    @staticmethod
    def backward(ctx, grad_output):
        return 2 * ctx.saved_tensors[0]

class Stop(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, indices):
        ctx.shape = x.shape
        return x[indices]

    @staticmethod
    def backward(ctx, grad_output):
        return torch.zeros(ctx.shape), None

class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, *grads):
        return -grads[0]

model, adversary = net(4, 2), net(2, 1)
optimizer = torch.optim.Adam([*model.parameters(), *adversary.parameters()], lr=0.01)
for step in range(20):
    x, y = batch()
    out = model(x)
    still = Stop.apply(out, torch.arange(16))
    loss = Fused.apply(out[:, :1], y) + 0.1 * F.mse_loss(adversary(Reverse.apply(out)), still[:, 1:])
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    Each.apply(out).sum().backward()
    optimizer.step()
""",
    "parameters that are shared, and an average that may be left out": """
import copy

class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.second.weight, self.second.bias = self.first.weight, self.first.bias
        self.into, self.out = nn.Linear(4, 8), nn.Linear(8, 1)

    def forward(self, x):
        return self.out(torch.relu(self.second(torch.relu(self.first(self.into(x))))))

averaged = False
model = Tied()
average = copy.deepcopy(model) if averaged else model
target = copy.deepcopy(model).requires_grad_(False)

@torch.no_grad()
def update(average, model):
    for a, p in zip(average.parameters(), model.parameters()):
        a.lerp_(p, 0.1)

optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(80):
    x, y = batch()
    loss = F.mse_loss(model(x), y) + 0.1 * F.mse_loss(model(x), target(x))
    $update
    if averaged:
        update(average, model)
    update(target, model)
""",
    "an attribute of the name that a module has of its own": """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone, self.head = net(4, 8), nn.Linear(8, 1)
        self.requires_grad = True

    def forward(self, x):
        return self.head(self.backbone(x))

model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 40
""",
    "parameters in a list, clipped and given to the optimizer": """
model = net()
params = list(model.parameters())
optimizer = torch.optim.SGD(params, lr=0.05)
for step in range(40):
    x, y = batch()
    loss = F.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_((p for p in params), 0.5)
    optimizer.step()
""",
    "a perturbation that is projected in place": """
model = net().requires_grad_(False)
delta = torch.zeros(4, requires_grad=True)
optimizer = torch.optim.Adam([delta], lr=0.02)
for step in range(40):
    x, y = batch()
    loss = -F.mse_loss(model(x + delta), y)
    $update
    with torch.no_grad():
        delta.copy_(delta.clamp(-0.3, 0.3))
""",
    "a running average of what is detached": """
class Meter:
    def __init__(self):
        self.value = 0.0

    def update(self, x):
        self.value = 0.98 * self.value + 0.02 * x.detach()

model, meter = net(), Meter()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 300
    meter.update(loss)
""",
    "gradients of tasks that are collected before they are zeroed": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
def gradient():
    x, y = batch()
    optimizer.zero_grad()
    F.mse_loss(model(x), y).backward()
    return [p.grad.clone() for p in model.parameters()]
for step in range(20):
    several = [gradient() for _ in range(3)]
    for p, *grads in zip(model.parameters(), *several):
        p.grad = torch.stack(grads).median(0).values
    optimizer.step()
""",
    "tasks that have an optimizer each, and steps that come later": """
models = [net(), net()]
optimizers = [torch.optim.Adam(model.parameters(), lr=0.01) for model in models]
for step in range(20):
    for model, optimizer in zip(models, optimizers):
        optimizer.zero_grad()
        x, y = batch()
        loss = F.mse_loss(model(x), y)
        loss.backward()
    for optimizer in optimizers:
        optimizer.step()
""",
    "an optimizer that calls its closure several times": """
model = net()
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=5)
x, y = batch()
def closure():
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    return loss
for step in range(12):
    optimizer.step(closure)
""",
    "an attack of several steps that zeroes the gradients of the model": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
def attack(x, y):
    moved = x.clone()
    for _ in range(3):
        moved.requires_grad_()
        optimizer.zero_grad()
        F.mse_loss(model(moved), y).backward()
        moved = (moved + 0.1 * moved.grad.sign()).detach()
    return moved
for step in range(20):
    x, y = batch()
    x = attack(x, y)
    optimizer.zero_grad()
    loss = F.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
""",
    "one batch that is overfitted on purpose": """
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(*batch(64)), batch_size=16)
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x, y = next(iter(loader))
for step in range(50):
    loss = F.mse_loss(model(x.clone()), y)
    $update
""",
    "all data in one batch of a loader, and one that shuffles": """
def fit(loader):
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(50):
        x, y = next(iter(loader))
        loss = F.mse_loss(model(x), y)
        $update

data = torch.utils.data.TensorDataset(*batch(64))
fit(torch.utils.data.DataLoader(data, batch_size=64))
fit(torch.utils.data.DataLoader(data, batch_size=16, shuffle=True))
""",
    "experts and time steps that come first, and are weighted against one another": """
class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 4)
        self.experts = nn.ModuleList(net(4, 8) for _ in range(4))

    def forward(self, x):
        weights = torch.softmax(self.gate(x).t(), dim=0)  # 4 experts, 16 samples
        return (weights.unsqueeze(-1) * torch.stack([expert(x) for expert in self.experts])).sum(0)

class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.score = nn.GRU(8, 8), nn.Linear(8, 1)

    def forward(self, x):
        states, _ = self.rnn(x)
        weights = F.softmax(self.score(states), dim=0)  # 4 time steps, 16 samples
        return torch.bmm(weights.permute(1, 2, 0), states.transpose(0, 1)).squeeze(1)

mixture, reader, head = Mixture(), Reader(), nn.Linear(8, 1)
optimizer = torch.optim.Adam([*mixture.parameters(), *reader.parameters(), *head.parameters()], lr=0.01)
for step in range(30):
    x, y = batch()
    hidden = torch.stack([mixture(x + k) for k in range(4)])
    loss = F.mse_loss(head(reader(hidden)), y)
    $update
""",
    "an average that loads its dict, an actor with the memory of its learner, and the best model": """
import copy

@torch.no_grad()
def follow(ema, model):
    state, now = ema.state_dict(), model.state_dict()
    for key in state:
        state[key] = 0.9 * state[key] + 0.1 * now[key]
    ema.load_state_dict(state)

def size(model):
    total = 0.0
    for name, value in model.state_dict().items():
        value = value.float() + 0.0
        total += float(value.norm())
    return total

learner = net()
ema, actor, best, first = (copy.deepcopy(learner).requires_grad_(False) for _ in range(4))
optimizer = torch.optim.Adam(learner.parameters(), lr=0.01)
lowest = 1e9
for step in range(150):
    x, y = batch()
    with torch.no_grad():
        acted = actor(x) + 0.1 * best(x)
    loss = F.mse_loss(learner(x), y) + F.mse_loss(learner(x), ema(x)) + F.mse_loss(learner(x), acted)
    $update
    follow(ema, learner)
    for mine, its in zip(actor.parameters(), learner.parameters()):
        mine.data = its.data
    if loss.item() < lowest:
        lowest, best = loss.item(), copy.deepcopy(learner)
    size(first)
""",
    "hooks that are removed before they are registered again": """
model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
for _ in range(3):
    model[2].weight.register_hook(lambda g: g * 0.9)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
handles, seen = [], []
for step in range(70):
    for handle in handles:
        handle.remove()
    handles = [p.register_hook(lambda g: g.clamp(-1, 1)) for p in model.parameters()]
    handles += [each.register_forward_hook(lambda m, a, out: seen.append(float(out.sum()))) for each in model]
    $step
""",
    "an encoder that two losses train, with an optimizer for each": """
encoder, decoder, judge = net(4, 2), net(2, 4), net(2, 1)
opt_ae = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=0.005)
opt_prior = torch.optim.Adam(encoder.parameters(), lr=0.002)
opt_judge = torch.optim.Adam(judge.parameters(), lr=0.002)
for step in range(40):
    x, _ = batch(32)
    opt_ae.zero_grad()
    F.mse_loss(decoder(encoder(x)), x).backward()
    opt_ae.step()
    codes = encoder(x)
    opt_judge.zero_grad()
    (F.softplus(-judge(torch.randn_like(codes))).mean() + F.softplus(judge(codes.detach())).mean()).backward()
    opt_judge.step()
    opt_prior.zero_grad()
    F.softplus(-judge(codes)).mean().backward()
    opt_prior.step()
""",
    "a head that is trained on fixed features, in turns with all of the network": """
body, head = net(4, 8), net(8, 1)
opt_all = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=0.002)
opt_head = torch.optim.Adam(head.parameters(), lr=0.01)
for step in range(40):
    x, y = batch(32)
    opt_head.zero_grad()
    F.mse_loss(head(body(x).detach()), y).backward()
    opt_head.step()
    opt_all.zero_grad()
    F.mse_loss(head(body(x)), y).backward()
    opt_all.step()
""",
    "a derivative in a residual, with create_graph, at points that stay": """
def slope(u, t):
    return torch.autograd.grad(u, t, grad_outputs=torch.ones_like(u), create_graph=True)[0]

model = net(inputs=1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
points = torch.linspace(0, 1, 20).view(-1, 1).requires_grad_(True)
for step in range(20):
    u = model(points)
    loss = ((slope(u, points) + 2 * u) ** 2).mean()
    $update
""",
    "an attack adds a derivative to an embedding, an inner loop one to its weights": """
table = nn.Embedding(10, 4)
model = net()
optimizer = torch.optim.Adam([*table.parameters(), *model.parameters()], lr=0.01)
weight = next(model.parameters())
for step in range(20):
    ids, y = torch.randint(10, (16,)), torch.randn(16, 1)
    rows = table(ids)
    delta = torch.zeros_like(rows).requires_grad_(True)
    first = F.mse_loss(model(rows + delta), y)
    slope, by_weight = torch.autograd.grad(first, [delta, weight], retain_graph=True)
    fast = {"0.weight": weight - 0.1 * by_weight}
    second = F.mse_loss(torch.func.functional_call(model, fast, (rows,)), y)
    loss = F.mse_loss(model(rows + 0.1 * slope.sign()), y) + second
    $update
""",
    "a weight between terms comes of their derivatives": """
model = net(inputs=1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
points = torch.linspace(0, 1, 20).view(-1, 1).requires_grad_(True)
t0, u0 = torch.zeros(1, 1), torch.ones(1, 1)
for step in range(20):
    u = model(points)
    slope = torch.autograd.grad(u.sum(), points, create_graph=True)[0]
    inner, start = (slope + u).square().mean(), F.mse_loss(model(t0), u0)
    last = model[2].weight
    ratio = [torch.autograd.grad(each, last, retain_graph=True)[0].norm() for each in (inner, start)]
    loss = inner + ratio[0] / (ratio[1] + 1e-6) * start
    $update
""",
    "an attacked picture is a new leaf made of a result": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    x, y = batch()
    x.requires_grad_(True)
    slope, = torch.autograd.grad(F.mse_loss(model(x), y), x)
    moved = torch.tensor((x + 0.1 * slope.sign()).tolist(), requires_grad=True)
    loss = F.mse_loss(model(moved), y)
    optimizer.zero_grad()
    loss.backward()
    spread = moved.grad.abs().mean()
    optimizer.step()
""",
    "a policy learns from the density of its samples, written out or not": """
policy, critic = net(), net(inputs=5)
optimizer = torch.optim.Adam([*policy.parameters(), *critic.parameters()], lr=0.01)
for step in range(20):
    x, y = batch()
    mean = policy(x)
    chosen = torch.distributions.Normal(mean, 0.3)
    action = chosen.sample()
    reward = -(action - y).abs()
    if step % 2:
        score = chosen.log_prob(action)
    else:
        score = -(action - mean).square() / (2 * 0.3**2)
    value = critic(torch.cat([x, action], 1))
    loss = F.mse_loss(value, reward) - (score * (reward - reward.mean())).mean()
    $update
""",
    "a latent that is sampled with its gradient": """
encoder, decoder = net(outputs=2), net(inputs=2, outputs=4)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=0.01)
for step in range(20):
    x, _ = batch()
    mean = encoder(x)
    z = torch.distributions.Normal(mean, 0.5).rsample()
    loss = F.mse_loss(decoder(z), x) + 0.1 * mean.square().mean()
    $update
""",
    "calls that look like methods of tensors whose result is thrown away": """
class Meter:
    def __init__(self):
        self.values = []

    def add(self, value):
        self.values.append(float(value.add(1)))

    def clamp(self, low, high):
        self.values = [min(max(each, low), high) for each in self.values]

seen, meter, model = set(), Meter(), net()
model.to("cpu")
model.float()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
average = [p.detach().clone() for p in model.parameters()]
for step in range(30):
    x, y = batch()
    x.to("cpu")
    x.float()
    y.detach()
    out = model(x)
    loss = F.mse_loss(out, y)
    seen.add(loss.detach() + 1)
    seen.add(loss.detach().mul(2))
    meter.add(loss.detach())
    meter.clamp(0, 5)
    $update
    with torch.no_grad():
        for kept, p in zip(average, model.parameters()):
            kept.mul_(0.9).add_(p, alpha=0.1)
            kept.lerp_(p, 0.1)
""",
    "views that split, join and group": """
class Heads(nn.Module):
    def __init__(self, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv, self.out, self.conv = nn.Linear(8, 24), nn.Linear(8, 8), nn.Conv1d(8, 8, 3, padding=1)
        self.read = nn.Linear(8, 2)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d)
        y = self.out(mixed).transpose(1, 2)
        y = self.conv(y.reshape(b, d, t)).view(b, 2, d // 2, t).transpose(1, 2).reshape(b, d, t)
        y = y.transpose(1, 2)
        windows = y.reshape(b, t // 2, 2, d).mean(2).reshape(b * t // 2, d)
        return self.read(windows).view(b, t // 2, 2)

model = Heads()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(30):
    x = torch.randn(8, 6, 8)
    weights = model.qkv.weight.reshape(-1, 24).pow(2).mean(1)
    scores = model(x)
    b, t, c = scores.shape
    loss = F.cross_entropy(scores.view(b * t, c), x.sum(-1)[:, ::2].gt(0).long().view(-1)) + 0.01 * weights.mean()
    $update
""",
    "a recurrent network with time first": """
class Series(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.LSTM(4, 8, num_layers=2), nn.Linear(8, 1)

    def forward(self, x):
        t, b, f = x.shape
        out, (h, c) = self.rnn(x)
        h = h.view(2, 1, b, 8)
        out = out.view(t * b, 8).view(t, b, 8)
        return self.head(out[-1]) + self.head(h[-1, 0]) + torch.stack([self.head(out[:, i].mean(0)) for i in range(b)])

model = Series()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(30):
    x = torch.randn(6, 16, 4)
    loss = F.mse_loss(model(x), x.sum((0, 2))[:, None].sin())
    $update
""",
    "states of a model that are copied, changed or loaded at once": """
import copy
model, other = net(), net()
start = model.state_dict()
start["0.weight"] = start["0.weight"] * 0.5
model.load_state_dict(start)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
best, least, latest = None, float("inf"), None
$loop 40
    latest = model.state_dict()
    if loss.item() < least:
        least, best = loss.item(), copy.deepcopy(model.state_dict())
    if step % 8 == 0:
        other.load_state_dict(latest)
model.load_state_dict(best)
""",
    "two backwards of a step, the first for something else": """
def attack(model, x, y):
    x = x.clone().requires_grad_(True)
    F.mse_loss(model(x), y).backward()
    return (x + 0.05 * x.grad.sign()).detach()

maker, judge = net(3, 4), net(4, 1)
opt_m = torch.optim.Adam(maker.parameters(), lr=0.002)
opt_j = torch.optim.Adam(judge.parameters(), lr=0.002)
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(30):
    x, y = batch()
    fake = maker(torch.randn(16, 3))
    opt_m.zero_grad()
    F.softplus(-judge(fake)).mean().backward()
    opt_j.zero_grad()
    (F.softplus(-judge(x)).mean() + F.softplus(judge(fake.detach())).mean()).backward()
    opt_m.step()
    opt_j.step()
    worse = attack(model, x, y)
    optimizer.zero_grad()
    F.mse_loss(model(worse), y).backward()
    optimizer.step()
""",
    "a body that is unfrozen and added to the optimizer": """
body, head = net(4, 8), nn.Linear(8, 1)
model = nn.Sequential(body, head)
for p in body.parameters():
    p.requires_grad = False
optimizer = torch.optim.Adam(head.parameters(), lr=0.01)
for step in range(150):
    if step == 20:
        for p in body.parameters():
            p.requires_grad = True
        optimizer.add_param_group({"params": body.parameters(), "lr": 0.001})
    $step
""",
    "layers that the first forward creates, before the optimizer": """
class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), None

    def forward(self, x):
        h = torch.tanh(self.body(x))
        if self.head is None:
            self.head = nn.Linear(h.shape[1], 1)
        shift = nn.Parameter(torch.zeros(1), requires_grad=False)
        return self.head(h) + shift

model = Lazy()
model(batch()[0])
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 40
""",
    "an optimizer of one's own that works through other names": """
class Own(torch.optim.Optimizer):
    def __init__(self, params, lr, decay=0.0):
        super().__init__(params, {"lr": lr, "decay": decay})
        self.seen = set()

    @torch.no_grad()
    def step(self):
        new = []
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                self.seen.add(p)
                if group["decay"]:
                    p.mul(1 - group["decay"])
                gradient = p.grad.add(p, alpha=1e-4)
                target = p
                p = p - group["lr"] * gradient
                new.append((target, p))
        for target, value in new:
            target.copy_(value)

model = net()
optimizer = Own(model.parameters(), lr=0.01)
$loop 40
""",
    "hooks that look and return nothing, and one that scales": """
seen = {}

def look(module, given, returned):
    seen[module] = returned.detach()
    return None

def scale(module, given, returned):
    seen["size"] = returned.detach().norm()
    return 0.9 * returned

model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1))
model[0].register_forward_hook(look)
model[2].register_forward_hook(scale)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 40
""",
    "a codebook with both of its terms": """
table = nn.Parameter(torch.randn(8, 3))
encoder, decoder = nn.Linear(4, 3), nn.Linear(3, 4)
optimizer = torch.optim.Adam([*encoder.parameters(), table, *decoder.parameters()], lr=0.01)
for step in range(40):
    x, _ = batch()
    z = encoder(x)
    nearest = table[torch.cdist(z, table).argmin(1)]
    out = z + (nearest - z).detach()
    loss = F.mse_loss(decoder(out), x) + F.mse_loss(nearest, z.detach()) + 0.25 * F.mse_loss(z, nearest.detach())
    $update
""",
    "copies of an ensemble in the optimizer": """
from torch.func import functional_call, stack_module_state, vmap

members = [net() for _ in range(3)]
stacked, buffers = stack_module_state(members)
optimizer = torch.optim.Adam(stacked.values(), lr=0.01)
for step in range(40):
    x, y = batch()
    out = vmap(lambda p, b: functional_call(members[0], (p, b), (x,)))(stacked, buffers)
    loss = (out - y).square().mean()
    $update
""",
    "actions that are scored, with a shared trunk and a model of the world": """
trunk, actor, value = nn.Sequential(nn.Linear(4, 8), nn.Tanh()), nn.Linear(8, 2), nn.Linear(8, 1)
world = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 4))
modules = nn.ModuleList([trunk, actor, value, world])
optimizer = torch.optim.Adam(modules.parameters(), lr=0.01)
for step in range(40):
    x, y = batch()
    h = trunk(x)
    mean, log_std = actor(h).chunk(2, 1)
    std = log_std.clamp(-2, 1).exp()
    if step % 2:
        policy = torch.distributions.Normal(mean, std)
        action = policy.sample()
        score = policy.log_prob(action)
    else:
        action = torch.normal(mean, std)
        score = -((action - mean) / std).square() / 2 - std.log()
    reward = -(action.detach() - y).square()
    ahead = F.mse_loss(world(torch.cat([x, action], 1)), x + action.detach())
    baseline = value(h)
    loss = ahead - (score * (reward - baseline).detach()).mean() + F.mse_loss(baseline, reward)
    $update
""",
    "a clamp that some values reach": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(30):
    x, y = batch()
    loss = F.mse_loss(model(x).clamp(-0.5, 0.5), y.clamp(-0.4, 0.4))
    $update
""",
    "a head whose term is switched off by a number, a margin that is satisfied": """
body, head, other = net(outputs=4), nn.Linear(4, 2), nn.Linear(4, 1)
optimizer = torch.optim.Adam([*body.parameters(), *head.parameters(), *other.parameters()], lr=0.01)
WEIGHT = 0.0
for step in range(30):
    x, y = batch()
    h = body(x)
    margin = F.relu(0.001 - (h[:8] - h[8:] + 50).norm(dim=1)).mean()
    loss = F.cross_entropy(head(h), (y[:, 0] > 0).long()) + WEIGHT * other(h).mean() + margin
    $update
""",
    "an expert that idles behind a gate": """
class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 3)
        self.experts = nn.ModuleList(net() for _ in range(3))
        nn.init.constant_(self.gate.bias[2:], -30.0)

    def forward(self, x):
        shares = self.gate(x).softmax(1)
        shares = shares * (shares >= shares.topk(2, 1).values[:, 1:])
        return sum(shares[:, k : k + 1] * expert(x) for k, expert in enumerate(self.experts))

model = Experts()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 40
""",
    "a last layer that starts at zero": """
model = net()
nn.init.zeros_(model[2].weight)
nn.init.zeros_(model[2].bias)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
$loop 40
""",
    "an average of the parameters, whose statistics are computed at the end": """
from torch.optim.swa_utils import AveragedModel, update_bn

model = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
average = AveragedModel(model).eval()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
$loop 150
    average.update_parameters(model)
update_bn([batch()[0] for _ in range(4)], average)
""",
    "log-probabilities given to ctc_loss, logarithms to poisson_nll_loss": """
states, letters = nn.RNN(4, 8, batch_first=True), nn.Linear(8, 5)
optimizer = torch.optim.Adam([*states.parameters(), *letters.parameters()], lr=0.01)
for step in range(20):
    frames, texts = torch.randn(6, 10, 4), torch.randint(1, 5, (6, 3))
    scores = letters(states(frames)[0])
    loss = F.ctc_loss(scores.log_softmax(2).permute(1, 0, 2), texts, [10] * 6, [3] * 6)
    counts = torch.poisson(frames[:, 0].abs())
    loss = loss + F.poisson_nll_loss(scores[:, 0, :4], counts)
    loss = loss + F.poisson_nll_loss(scores[:, 0, :4].exp(), counts, log_input=False)
    $update
""",
    "actions that torch.normal draws, and a policy that scores them": """
policy = net()
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
for step in range(20):
    x, y = batch()
    mean = policy(x)
    action = torch.normal(mean, torch.full_like(mean, 0.3))
    score = -((action - mean) ** 2) / (2 * 0.3**2)
    reward = -((action.detach() - y) ** 2)
    loss = -(score * reward).mean()
    $update
""",
    "a schedule that is as long as its micro batches are many": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=120)
for step in range(40):
    for part in range(3):
        x, y = batch()
        (F.mse_loss(model(x), y) / 3).backward()
        if part == 2:
            optimizer.step()
            optimizer.zero_grad()
        schedule.step()
""",
    "a temperature that is read again in each step, and how far it has come": """
model, log_t = net(outputs=3), nn.Parameter(torch.tensor(0.5))
optimizer = torch.optim.Adam([*model.parameters(), log_t], lr=0.01)
first = log_t.exp().item()
for step in range(60):
    x, y = batch()
    t = log_t.exp().item()
    scores = model(x)
    loss = F.cross_entropy(scores / log_t.exp(), (y[:, 0] > 0).long()) + 0.01 * t * scores.square().mean()
    $update
print(t - first)
""",
    "similarities of all with all, less those of the pairs": """
first, second = net(outputs=6), net(outputs=6)
optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=0.01)
for step in range(12):
    x = torch.randn(16, 4)
    a, b = F.normalize(first(x), dim=1), F.normalize(second(x + 0.1 * torch.randn(16, 4)), dim=1)
    sim, pairs = a @ b.T, (a * b).sum(1)
    away = (1 - torch.eye(16)) * F.relu(0.2 + sim - pairs)
    both = F.cross_entropy(sim / 0.1, torch.arange(16)) + F.cross_entropy(sim.T / 0.1, torch.arange(16))
    gaps = (a[:, None] - a[None]).square().sum(2)
    loss = both + away.mean() + (-2 * gaps).exp().mean().log()
    $update
""",
    "an encoder that is given the steps first, as many as there are samples": """
from torch.utils.data import DataLoader, TensorDataset

class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.places = nn.Linear(3, 8), nn.Parameter(torch.randn(8, 8))
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), 1, enable_nested_tensor=False
        )
        self.cell, self.out = nn.GRU(8, 8), nn.Linear(8, 2)

    def forward(self, x):
        h = (self.into(x) + self.places).transpose(0, 1)
        h, _ = self.cell(self.encoder(h))
        return self.out(h.mean(0)), self.out(h).transpose(0, 1)

model = Encoder()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x = torch.randn(64, 8, 3)
for x, y in DataLoader(TensorDataset(x, (x.sum((1, 2)) > 0).long()), 8, shuffle=True):
    one, each = model(x)
    loss = F.cross_entropy(one, y) + F.cross_entropy(each.flatten(0, 1), (x[:, :, 0] > 0).long().flatten())
    $update
""",
    "positions added to as many samples as there are steps": """
from torch.utils.data import DataLoader, TensorDataset

class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(9, 8), nn.Embedding(8, 8)
        self.mix, self.out = nn.MultiheadAttention(8, 2, batch_first=True), nn.Linear(8, 2)

    def forward(self, ids):
        h = self.tokens(ids) + self.places(torch.arange(ids.shape[1]))
        h = h * torch.linspace(0.5, 1.5, 8)
        return self.out(h + self.mix(h, h, h)[0])

model = Encoder()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
ids = torch.randint(0, 9, (64, 8))
for ids, tags in DataLoader(TensorDataset(ids, (ids > 4).long()), 8, shuffle=True):
    loss = F.cross_entropy(model(ids).view(-1, 2), tags.view(-1))
    $update
""",
    "a graph whose degrees divide both sides, and whose edges hear of both ends": """
class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.node, self.edge, self.out = nn.Linear(4, 6), nn.Linear(3, 6), nn.Linear(6, 1)

    def forward(self, x, near, edges):
        share = near.sum(1).clamp(min=1).rsqrt()
        near = share[:, None] * near * share
        h = self.node(near @ x)
        told = torch.tanh(self.edge(edges) + h[:, None] + h)
        return self.out((told * near[:, :, None]).sum(1))

model = Graph()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
near, edges = (torch.rand(6, 6) > 0.5).float(), torch.randn(6, 6, 3)
near = torch.maximum(near, near.T)
for step in range(12):
    x, y = batch(6)
    loss = F.mse_loss(model(x, near, edges), y)
    $update
""",
    "attention among the samples beside that among the features": """
class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.into = nn.Linear(1, 8)
        self.features, self.rows = nn.MultiheadAttention(8, 2, batch_first=True), nn.MultiheadAttention(8, 2)
        self.out = nn.Linear(8, 2)

    def forward(self, x):
        h = self.into(x.unsqueeze(2))
        h = h + self.features(h, h, h)[0]
        h = h + self.rows(h, h, h)[0]
        return self.out(h.mean(1))

model = Table()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(12):
    x, _ = batch()
    loss = F.cross_entropy(model(x), (x[:, 0] > 0).long())
    $update
""",
    "as many images as channels and columns": """
model = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1))
mean, spread, window = torch.rand(8, 1, 1), torch.rand(8, 1, 1) + 0.5, torch.hann_window(8, periodic=False) + 0.1
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(12):
    x = (torch.randn(8, 8, 8, 8) - mean) / spread
    keep = torch.rand(8)
    noise = torch.randn_like(x)
    noisy = keep.view(-1, 1, 1, 1) * x + (1 - keep)[:, None, None, None] * noise
    loss = (F.mse_loss(model(noisy)[:, 0], x.mean(1), reduction="none") * window * keep[:, None, None]).mean()
    loss = loss + 0.01 * (x - x.mean(0)).square().mean() * model[0].weight.square().mean()
    $update
""",
    "one sentence at a time, a label for each word": """
cell, out = nn.LSTM(4, 6), nn.Linear(6, 3)
optimizer = torch.optim.Adam([*cell.parameters(), *out.parameters()], lr=0.01)
for step in range(12):
    words = torch.randn(7, 4)
    labels = (words[:, 0] > 0).long() + (words[:, 1] > 0).long()
    h, _ = cell(words.view(7, 1, 4))
    loss = F.cross_entropy(out(h.view(7, -1)), labels)
    $update
""",
    "pictures of a graph in the order of time, which a loader stacks": """
from torch.utils.data import DataLoader, TensorDataset

cell, out = nn.GRU(3, 6), nn.Linear(6, 1)
optimizer = torch.optim.Adam([*cell.parameters(), *out.parameters()], lr=0.01)
series = torch.randn(96, 5, 3).cumsum(0) * 0.1
for x, y in DataLoader(TensorDataset(series[:-1], series[1:, :, :1]), batch_size=10):
    h, _ = cell(x)
    loss = F.mse_loss(out(h), y)
    $update
""",
    "weights of features, as many as there are samples": """
model, weight = net(outputs=16), nn.Parameter(torch.zeros(16))
optimizer = torch.optim.Adam([*model.parameters(), weight], lr=0.01)
for step in range(12):
    x, y = batch()
    h = model(x)
    kernel = (-((h[:, None] - h[None]).square() * weight.exp()).sum(2) / 16).exp()
    share = kernel / kernel.sum(1, keepdim=True)
    loss = F.mse_loss(share @ y, y + 0.1 * torch.randn(16, 1)) + 0.01 * (h - h.mean(0)).square().mean()
    $update
""",
    "gradients of each sample under vmap, whose sizes are part of the loss": """
from torch.func import functional_call, grad, vmap

model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

def of_one(parameters, x, y):
    return F.mse_loss(functional_call(model, parameters, (x[None],)), y[None])

rows = torch.arange(16)
for step in range(12):
    x, y = batch()
    parameters = dict(model.named_parameters())
    found = vmap(grad(of_one), in_dims=(None, 0, 0))(parameters, x, y)
    size = torch.stack([each.flatten(1).norm(dim=1) for each in found.values()]).norm(dim=0)
    each = vmap(of_one, in_dims=(None, 0, 0))(parameters, x, y)
    loss = (each + 0.01 * size)[rows].mean()
    $update
""",
    "a residual at as many points as the network is wide": """
model = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(12):
    x = torch.rand(16, 1).requires_grad_()
    u = model(x)
    (slope,) = torch.autograd.grad(u.sum(), x, create_graph=True)
    loss = (slope + u).square().mean() + (model(torch.zeros(1, 1)) - 1).square().mean()
    $update
""",
    "cosines that are to come again: of a number of batches, and of epochs": """
for length, per_batch in ((20, True), (4, False)):
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=length)
    for epoch in range(12):
        for _ in range(10):
            x, y = batch()
            optimizer.zero_grad()
            F.mse_loss(model(x), y).backward()
            optimizer.step()
            if per_batch:
                schedule.step()
        if not per_batch:
            schedule.step()
""",
    "a schedule of batches that ends low": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=100)
for epoch in range(10):
    for _ in range(10):
        x, y = batch()
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()
        schedule.step()
""",
    "a temperature that has the parameter's memory, and one that is taken anew": """
log_scale, model = nn.Parameter(torch.tensor([0.7])), net()
same = log_scale.detach()
optimizer = torch.optim.Adam([log_scale, *model.parameters()], lr=0.01)
for step in range(40):
    x, y = batch()
    scale = log_scale.exp().detach()
    out = model(x)
    optimizer.zero_grad()
    (F.mse_loss(out * scale * same, y) + F.mse_loss(out.detach() * log_scale, y)).backward()
    optimizer.step()
""",
    "an average whose statistics are computed at the end": """
import copy
from torch.optim.swa_utils import update_bn

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
                slow.lerp_(fast, 0.1)
    update_bn([3 * batch()[0] + 2 for _ in range(4)], mean)
    return mean

train(140)
""",
    "an inner loop on a copy whose gradients are carried over": """
import copy

def adapted(base, x, y):
    fast = copy.deepcopy(base)
    inner = torch.optim.SGD(fast.parameters(), lr=0.05)
    inner.zero_grad()
    F.mse_loss(fast(x), y).backward()
    inner.step()
    inner.zero_grad()
    return fast

base = net()
outer = torch.optim.Adam(base.parameters(), lr=0.01)
for step in range(20):
    fast = adapted(base, *batch())
    x, y = batch()
    F.mse_loss(fast(x), y).backward()
    for p, q in zip(base.parameters(), fast.parameters()):
        p.grad = q.grad
    outer.step()
""",
    "sums through an index without repeated entries": """
embed, head = nn.Embedding(10, 4), nn.Linear(4, 1)
optimizer = torch.optim.Adam([*embed.parameters(), *head.parameters()], lr=0.01)
for step in range(20):
    words, rows, y = torch.randint(10, (8,)), torch.randperm(8), torch.randn(8, 1)
    pooled = torch.zeros(8, 4)
    pooled[rows] += embed(words)
    pooled[rows > 3] += 1
    optimizer.zero_grad()
    F.mse_loss(head(pooled), y).backward()
    optimizer.step()
""",
    "an optimizer that keeps the last gradient, made anew in each step": """
class Damped(torch.optim.Optimizer):
    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                last = self.state[p].get("last", p.grad)
                self.state[p]["last"] = p.grad
                p.sub_(p.grad + 0.5 * last, alpha=group["lr"])

model = net()
optimizer = Damped(model.parameters(), lr=0.01)
for step in range(40):
    x, y = batch()
    optimizer.zero_grad()
    F.mse_loss(model(x), y).backward()
    optimizer.step()
""",
    "noise that is added to a copy of stored signals": """
class Signals(torch.utils.data.Dataset):
    def __init__(self):
        self.rows, self.goals = torch.randn(64, 4), torch.randn(64, 1)

    def __len__(self):
        return 64

    def __getitem__(self, at):
        row = self.rows[at].clone()
        row.add_(0.01 * torch.randn(4))
        return row, self.goals[at]

model, data = net(), Signals()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(20):
    for x, y in torch.utils.data.DataLoader(data, batch_size=16, shuffle=True):
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()
""",
    "a hypernetwork whose weights are used by functional_call": """
main, hyper = nn.Linear(4, 1), nn.Linear(2, 5)
optimizer = torch.optim.Adam(hyper.parameters(), lr=0.01)
for step in range(40):
    x, y = batch()
    flat = hyper(torch.randn(2))
    weights = {"weight": flat[:4].view(1, 4), "bias": flat[4:]}
    loss = F.mse_loss(torch.func.functional_call(main, weights, (x,)), y)
    $update
""",
    "a target network that is copied from a trained one, and trained apart": """
model, copy = net(), net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
other = torch.optim.Adam(copy.parameters(), lr=0.01)
for step in range(40):
    x, y = batch()
    if step % 10 == 0:
        with torch.no_grad():
            for p, q in zip(copy.parameters(), model.parameters()):
                p.copy_(q)
        copy.load_state_dict(model.state_dict())
    for each, its in ((model, optimizer), (copy, other)):
        loss = F.mse_loss(each(x), y)
        $update its
""",
    "a fake that is detached for the discriminator alone": """
G, D = net(2, 4), net(4, 1)
opt_g = torch.optim.Adam(G.parameters(), lr=0.001)
opt_d = torch.optim.Adam(D.parameters(), lr=0.001)
ones, zeros = torch.ones(16, 1), torch.zeros(16, 1)
for step in range(40):
    fake = G(torch.randn(16, 2))
    loss_d = F.mse_loss(D(batch()[0]), ones) + F.mse_loss(D(fake.detach()), zeros)
    opt_d.zero_grad()
    loss_d.backward()
    opt_d.step()
    loss_g = F.mse_loss(D(fake), ones)
    opt_g.zero_grad()
    loss_g.backward()
    opt_g.step()
""",
    "log-probabilities of classes that come first, turned for ctc_loss and for pixels": """
model, pixels = nn.Linear(4, 6), nn.Conv2d(1, 5, 3, padding=1)
optimizer = torch.optim.Adam([*model.parameters(), *pixels.parameters()], lr=0.01)
for step in range(40):
    x = torch.randn(8, 12, 4)
    logp = F.log_softmax(model(x).permute(2, 0, 1), dim=0).permute(2, 1, 0)
    loss = F.ctc_loss(logp, torch.randint(1, 6, (8, 3)), torch.full((8,), 12), torch.full((8,), 3))
    maps = F.log_softmax(pixels(torch.randn(4, 1, 6, 7)), dim=1)
    loss = loss + F.nll_loss(maps, torch.randint(5, (4, 6, 7)))
    $update
""",
    "a ratio to what the policy was, and one to itself as a constant": """
policy = net(4, 3)
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)

def log_prob(states, actions):
    return torch.distributions.Categorical(logits=policy(states)).log_prob(actions)

for rollout in range(10):
    states, actions, advantage = torch.randn(32, 4), torch.randint(3, (32,)), torch.randn(32)
    with torch.no_grad():
        old = log_prob(states, actions)
    for epoch in range(3):
        new = log_prob(states, actions)
        ratio, unit = torch.exp(new - old), torch.exp(new - new.detach())
        loss = -torch.min(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean() - 0.1 * (unit * advantage).mean()
        $update
""",
    "two heads that start at zero, and their ratio": """
body, one, other = net(4, 8), nn.Linear(8, 1), nn.Linear(8, 1)
for head in (one, other):
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
optimizer = torch.optim.Adam([*body.parameters(), *one.parameters(), *other.parameters()], lr=0.01)
for step in range(40):
    x, y = batch()
    h = body(x).tanh()
    loss = F.mse_loss(torch.exp(one(h) - other(h)), y.exp())
    $update
""",
    "a language model that shifts its tokens within": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.look_up, self.rnn, self.out = nn.Embedding(12, 8), nn.GRU(8, 16, batch_first=True), nn.Linear(16, 12)

    def forward(self, tokens):
        before = F.pad(self.look_up(tokens), (0, 0, 1, -1))
        return self.out(self.rnn(before)[0])

model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    tokens = torch.randint(12, (8, 10))
    loss = F.cross_entropy(model(tokens).reshape(-1, 12), tokens.reshape(-1))
    logits = model.out(model.rnn(model.look_up(tokens[:, :-1]))[0])
    shifted = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    (loss + shifted).backward()
    optimizer.step()
""",
    "a sequence autoencoder with attention, and masked tokens that are restored": """
class Auto(nn.Module):
    def __init__(self):
        super().__init__()
        self.look_up, self.out = nn.Embedding(13, 16), nn.Linear(32, 12)
        self.reads, self.writes = nn.GRU(16, 16, batch_first=True), nn.GRU(16, 16, batch_first=True)
        self.bert = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.head = nn.Linear(16, 12)

    def forward(self, tokens):
        memory, h = self.reads(self.look_up(tokens))
        start = torch.full((len(tokens), 1), 12)
        y, _ = self.writes(self.look_up(torch.cat([start, tokens[:, :-1]], 1)), h)
        context = torch.bmm(torch.bmm(y, memory.transpose(1, 2)).softmax(-1), memory)
        return self.out(torch.cat([y, context], -1))

    def restore(self, tokens):
        return self.head(self.bert(self.look_up(tokens)))

model = Auto()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    tokens = torch.randint(12, (8, 10))
    masked = tokens.masked_fill(torch.rand(8, 10) < 0.3, 12)
    labels = tokens.masked_fill(masked == tokens, -100)
    loss = F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    loss = loss + F.cross_entropy(model.restore(masked).flatten(0, 1), labels.flatten(), ignore_index=-100)
    loss = loss + F.cross_entropy(model.restore(tokens).flatten(0, 1), tokens.flatten())
    $update
""",
    "a discriminator that joins at a late step, by a factor of 0 until then": """
model, critic = net(outputs=4), net(4, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
critic_optimizer = torch.optim.Adam(critic.parameters(), lr=0.01)
for step in range(40):
    factor = 0.0 if step < 1000 else 1.0
    x, _ = batch()
    fake = model(x)
    loss = F.mse_loss(fake, x) - factor * critic(fake).mean()
    $update
    critic_loss = factor * 0.5 * (F.relu(1 - critic(x)).mean() + F.relu(1 + critic(fake.detach())).mean())
    critic_optimizer.zero_grad()
    critic_loss.backward()
    critic_optimizer.step()
""",
    "preferences against a frozen copy of the policy": """
import copy

policy = nn.Sequential(nn.Embedding(12, 16), nn.Linear(16, 12))
reference = copy.deepcopy(policy)
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)

def log_prob(model, tokens):
    return model(tokens[:, :-1]).log_softmax(-1).gather(-1, tokens[:, 1:, None]).sum((1, 2))

for step in range(20):
    good, bad = torch.randint(12, (8, 6)), torch.randint(12, (8, 6))
    with torch.no_grad():
        old = log_prob(reference, good) - log_prob(reference, bad)
    loss = -F.logsigmoid(0.1 * (log_prob(policy, good) - log_prob(policy, bad) - old)).mean()
    $update
""",
    "one update for each rollout, of advantages whose mean is one": """
policy = net(4, 3)
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)

def log_prob(states, actions):
    return torch.distributions.Categorical(logits=policy(states)).log_prob(actions)

for rollout in range(20):
    states, actions = torch.randn(32, 4), torch.randint(3, (32,))
    with torch.no_grad():
        old = log_prob(states, actions)
    advantage = torch.where(actions > 0, 1.0, 1.0)
    ratio = torch.exp(log_prob(states, actions) - old)
    loss = -(ratio * advantage).mean()
    $update
""",
    "a surrogate of differences to what the policy was when it acted": """
policy = net(4, 3)
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)

def log_prob(states, actions):
    return torch.distributions.Categorical(logits=policy(states)).log_prob(actions)

for rollout in range(20):
    states, actions, reward = torch.randn(32, 4), torch.randint(3, (32,)), torch.randn(32)
    with torch.no_grad():
        old = log_prob(states, actions)
    new = log_prob(states, actions)
    loss = -((new - old) * (reward - reward.mean())).mean() - 0.01 * new.mean()
    $update
""",
    "two experts whose weights sum to one": """
class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.experts = nn.Linear(4, 3), nn.ModuleList(nn.Linear(4, 1) for _ in range(3))

    def forward(self, x):
        weight, chosen = self.gate(x).softmax(-1).topk(2, dim=-1)
        weight = weight / (weight.sum(-1, keepdim=True) + 1e-9)
        every = torch.stack([each(x) for each in self.experts], 1)
        return (every.gather(1, chosen[:, :, None]) * weight[:, :, None]).sum(1)

model = Mixture()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 30
""",
    "the weight of the only expert, beside a loss that balances the load": """
class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.experts = nn.Linear(4, 3), nn.ModuleList(nn.Linear(4, 1) for _ in range(3))

    def forward(self, x):
        scores = self.gate(x).softmax(-1)
        weight, chosen = scores.topk(1, dim=-1)
        weight = weight / (weight.sum(-1, keepdim=True) + 1e-9)
        every = torch.stack([each(x) for each in self.experts], 1)
        share = F.one_hot(chosen[:, 0], 3).float().mean(0)
        return (every.gather(1, chosen[:, :, None]) * weight[:, :, None]).sum(1), (share * scores.mean(0)).sum()

model = Mixture()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(30):
    x, y = batch()
    out, balance = model(x)
    loss = F.mse_loss(out, y) + 0.01 * balance
    $update
""",
    "the classes of each pixel, moved last before they are flattened": """
model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(30):
    images = torch.randn(8, 1, 6, 6)
    out = model(images)
    classes = out.size(1)
    logits = out.permute(0, 2, 3, 1).reshape(-1, classes)
    loss = F.cross_entropy(logits, (images[:, 0] > 0).long().view(-1))
    $update
""",
    "features that were pooled to one pixel, flattened": """
body, head = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1)), nn.Linear(8, 3)
optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=0.01)
for step in range(30):
    images = torch.randn(8, 1, 6, 6)
    h = body(images)
    flat = h.view(-1, h.size(1))
    loss = F.cross_entropy(head(flat), (images.mean((1, 2, 3)) > 0).long())
    $update
""",
    "a prediction and its target, flattened alike": """
model = nn.Conv1d(4, 5, 3, padding=1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(30):
    x = torch.randn(8, 4, 7)
    out, target = model(x), torch.cat([x, x[:, :1]], 1)
    one = out.reshape(-1, out.shape[1])
    other = target.reshape(-1, target.shape[1])
    loss = F.mse_loss(one, other)
    $update
""",
    "scores of classes for each pixel, with the classes moved last, and of whole images": """
model, whole = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(1, 4, 8)
optimizer = torch.optim.Adam([*model.parameters(), *whole.parameters()], lr=0.01)
for step in range(20):
    images = torch.randn(4, 1, 8, 8)
    targets = (images[:, 0] > 0).long() + (images[:, 0] > 1).long()
    loss = F.cross_entropy(model(images).permute(0, 2, 3, 1).reshape(-1, 4), targets.view(-1))
    loss = loss + F.cross_entropy(whole(images).view(-1, 4), targets.flatten(1).sum(1) % 4)
    $update
""",
    "clipping for its norm, of another optimizer, and of gradients from a helper": """
model, probe = net(), net()
optimizer, other = torch.optim.SGD(model.parameters(), lr=0.01), torch.optim.SGD(probe.parameters(), lr=0.01)

def gradients(x, y):
    F.mse_loss(model(x), y).backward()

for step in range(40):
    x, y = batch()
    other.zero_grad()
    F.mse_loss(probe(x), y).backward()
    optimizer.zero_grad()
    gradients(x, y)
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    penalty = 1e-3 * model[0].weight.square().sum()
    nn.utils.clip_grad_norm_(probe.parameters(), 0.5)
    penalty.backward()
    optimizer.step()
    other.step()
""",
    "clipping and a step at the beginning of an iteration, of the gradients of the one before": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = batch()
F.mse_loss(model(x), y).backward()
for step in range(40):
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    optimizer.zero_grad()
    x, y = batch()
    loss = F.mse_loss(model(x), y)
    loss.backward()
""",
    "clipping for its norm alone, before the gradients are zeroed": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(40):
    x, y = batch()
    loss = F.mse_loss(model(x), y)
    if step:
        norm = nn.utils.clip_grad_norm_(model.parameters(), float("inf"))
    $update
""",
    "a critic that is clipped once a helper has run its backward, and a generator that is not": """
generator, critic = net(4, 4), net()
g_opt, c_opt = torch.optim.Adam(generator.parameters()), torch.optim.Adam(critic.parameters())

def judge(x):
    loss = F.softplus(critic(generator(x).detach())).mean() + F.softplus(-critic(x)).mean()
    loss.backward()

for step in range(30):
    x, _ = batch()
    c_opt.zero_grad()
    judge(x)
    nn.utils.clip_grad_norm_(critic.parameters(), 0.5)
    c_opt.step()
    g_opt.zero_grad()
    loss = F.softplus(-critic(generator(x))).mean()
    loss.backward()
    g_opt.step()
""",
    "batches that are accumulated and clipped each": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(48):
    x, y = batch()
    loss = F.mse_loss(model(x), y) / 4
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    loss.backward()
    if step % 4 == 3:
        optimizer.step()
        optimizer.zero_grad()
""",
    "an average that starts later than the run ends": """
import copy
model = net()
ema = copy.deepcopy(model).requires_grad_(False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
ema_start = 1000
$loop 300
    if step >= ema_start:
        with torch.no_grad():
            for e, p in zip(ema.parameters(), model.parameters()):
                e.lerp_(p, 0.01)
""",
    "an average that returns until it starts": """
import copy

class Average:
    def __init__(self, model, start=500):
        self.module, self.start, self.step = copy.deepcopy(model), start, 0

    @torch.no_grad()
    def update(self, model):
        self.step += 1
        if self.step < self.start:
            return
        for e, p in zip(self.module.parameters(), model.parameters()):
            e.mul_(0.99).add_(p, alpha=0.01)

model = net()
average = Average(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
$loop 300
    average.update(model)
""",
    "a target that is copied rarely, and after a warm-up": """
import copy

class Agent:
    def __init__(self, every=1000):
        self.q, self.other = net(), net(width=8)
        self.q_target, self.other_target = copy.deepcopy(self.q), copy.deepcopy(self.other)
        self.opt = torch.optim.SGD([*self.q.parameters(), *self.other.parameters()], lr=0.01)
        self.every, self.warm, self.updates = every, 400, 0

    def sync(self):
        self.other_target.load_state_dict(self.other.state_dict())

    def learn(self):
        x, y = batch()
        loss = F.mse_loss(self.q(x), y) + F.mse_loss(self.other(x), y)
        $update self.opt
        self.updates += 1
        if self.updates % self.every == 0:
            self.q_target.load_state_dict(self.q.state_dict())

agent = Agent()
for step in range(300):
    agent.learn()
    if step > agent.warm and step % 10 == 0:
        agent.sync()
""",
    "an average by a function, skipped until it is due": """
import copy

def update(target, source, decay=0.99):
    with torch.no_grad():
        for e, p in zip(target.parameters(), source.parameters()):
            e.lerp_(p, 1 - decay)

def train(steps, average_from):
    model = net()
    averaged = copy.deepcopy(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    $loop steps
        if step <= average_from:
            continue
        update(averaged, model)

train(300, 400)
""",
    "a target that is loaded first when its step comes": """
import copy
model = net()
target = copy.deepcopy(model).requires_grad_(False)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
$loop 400
    if step > 300:
        target.load_state_dict(model.state_dict())
""",
    "a memory of copies": """
import random
from collections import deque
import numpy as np

$game

class Memory:
    def __init__(self):
        self.items = deque(maxlen=2000)

    def push(self, s, a, r, s2):
        self.items.append((s, a, r, s2))

    def sample(self, n):
        s, a, r, s2 = zip(*random.sample(self.items, n))
        s, s2 = (torch.stack([torch.as_tensor(each) for each in of]) for of in (s, s2))
        return s, torch.tensor(a), torch.tensor(r), s2

$play
        memory.push(s.copy(), a, r, s2.copy())
        s = s2
        $replay
""",
    "a memory of what the environment has copied": """
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
        return self.state.copy()

    def step(self, action):
        self.state[:] = 0.9 * self.state + 0.1 * (action - 1) + 0.01 * self.rng.standard_normal(3)
        self.t += 1
        return self.state.copy(), -float(abs(self.state).sum()), self.t >= 20

class Memory:
    def __init__(self):
        self.items = []

    def push(self, s, a, r, s2):
        self.items.append(dict(s=s, a=a, r=r, s2=s2))

    def sample(self, n):
        s, a, r, s2 = zip(*[each.values() for each in random.sample(self.items, n)])
        s, s2 = (torch.stack([torch.as_tensor(each) for each in of]) for of in (s, s2))
        return s, torch.tensor(a), torch.tensor(r), s2

$play
        memory.push(s, a, r, s2)
        s = s2
        $replay
""",
    "a memory of new tensors": """
import random
from collections import deque
import numpy as np

$game

class Memory:
    def __init__(self):
        self.items = deque(maxlen=2000)

    def push(self, s, a, r, s2):
        self.items.append((s, a, r, s2))

    def sample(self, n):
        s, a, r, s2 = zip(*random.sample(self.items, n))
        s, s2 = (torch.stack([torch.as_tensor(each) for each in of]) for of in (s, s2))
        return s, torch.tensor(a), torch.tensor(r), s2

$play
        memory.push(torch.tensor(s), a, r, torch.tensor(s2))
        s = s2
        $replay
""",
    "pairs of the same image, a counter that all jobs share, and the same constant twice": """
images = [torch.randn(4) for _ in range(64)]
pairs = [(each, each) for each in images]
counter, one = torch.zeros(4), torch.ones(4)
jobs = [(at, counter, torch.randn(4)) for at in range(64)]
static = [(one, one) for at in range(64)]
model = net(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(60):
    x = torch.stack([first for first, _ in pairs])
    loss = F.mse_loss(model(x), x * static[0][0])
    $update
    counter.add_(1)
    images[step].mul_(0.99)
""",
    "a denoiser, its noise handed on by position": """
$denoiser

def q_sample(x, t, noise=None):
    if noise is None:
        noise = torch.randn_like(x)
    a = kept[t][:, None]
    return a.sqrt() * x + (1 - a).sqrt() * noise

$images
    noise = torch.randn_like(x0)
    x_t = q_sample(x0, t, noise)
    loss = F.mse_loss(model(x_t, t), noise)
    $update
""",
    "a denoiser, its noise handed on by name": """
$denoiser

def q_sample(x, t, noise=None):
    if noise is None:
        noise = torch.randn_like(x)
    a = kept[t][:, None]
    return a.sqrt() * x + (1 - a).sqrt() * noise

$images
    noise = torch.randn_like(x0)
    x_t = q_sample(x0, t, noise=noise)
    loss = ((model(x_t, t) - noise) ** 2).mean()
    $update
""",
    "random targets": """
$denoiser

$images
    y = torch.randn_like(x0)
    loss = F.mse_loss(model(x0, t), y)
    $update
""",
    "a denoising autoencoder": """
$denoiser

$images
    noisy = x0 + 0.1 * torch.randn_like(x0)
    loss = F.mse_loss(model(noisy, t), x0)
    $update
""",
    "targets with noise of their own": """
$denoiser

$images
    clean, other = x0, x0 + 0.3 * torch.randn_like(x0)
    loss = F.mse_loss(model(x0 + 0.3 * torch.randn_like(x0), t), other)
    $update
""",
    "a sliced distance to a prior": """
$denoiser

$images
    z = model(x0, t)
    z = z + 0.1 * torch.randn_like(z)
    prior = torch.randn_like(z)
    theta = F.normalize(torch.randn(4, 8), dim=0)
    loss = ((z @ theta).sort(0).values - (prior @ theta).sort(0).values).pow(2).mean()
    $update
""",
    "noise that is returned with the data": """
$denoiser

def noised(x, t):
    noise = torch.randn_like(x)
    a = kept[t][:, None]
    return a.sqrt() * x + (1 - a).sqrt() * noise, noise

$images
    x_t, noise = noised(x0, t)
    loss = F.mse_loss(model(x_t, t), noise)
    $update
""",
    "flow matching": """
$denoiser

$images
    x1 = x0
    start = torch.randn_like(x1)
    s = (t / T)[:, None]
    x_s = (1 - s) * start + s * (x1 + 0.01 * torch.randn_like(x1))
    loss = F.mse_loss(model(x_s, t), x1 - start)
    $update
""",
    "a loss that a Function puts in, whose gradient is a constant": """
class Balanced(torch.autograd.Function):
    @staticmethod
    def forward(ctx, output, balance):
        ctx.save_for_backward(output, balance)
        return output

    @staticmethod
    def backward(ctx, grad):
        _, balance = ctx.saved_tensors
        return grad, 0.01 * torch.ones_like(balance)

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.experts = nn.Linear(4, 3), nn.ModuleList(net() for _ in range(3))

    def forward(self, x):
        shares = self.gate(x).softmax(-1)
        mixed = sum(shares[:, k : k + 1] * each(x) for k, each in enumerate(self.experts))
        return Balanced.apply(mixed, shares.mean(0).square().sum())

model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 40
""",
    "a Function that stops the gradient of one input, and another that fills its result in place": """
class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x, scale)
        return x * scale

    @staticmethod
    def backward(ctx, grad):
        x, scale = ctx.saved_tensors
        of_scale = None
        if ctx.needs_input_grad[1]:
            of_scale = torch.zeros_like(scale)
        result = torch.empty_like(x)
        torch.mul(grad, scale, out=result)
        return result, of_scale

class Clipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, low):
        ctx.save_for_backward(x, low)
        return torch.maximum(x, low)

    @staticmethod
    def backward(ctx, grad):
        x, low = ctx.saved_tensors
        inside = torch.zeros_like(x)
        inside[x > low] = grad[x > low]
        below = grad - inside
        return inside, below.sum(0)

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(4, 16), nn.Linear(16, 1)
        self.low, self.scale = nn.Parameter(torch.full((16,), -0.5)), torch.ones(16)

    def forward(self, x):
        return self.last(Scaled.apply(Clipped.apply(self.first(x), self.low), self.scale))

model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 40
""",
    "one factor of each product starts at zero": """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp, self.gate = nn.Linear(8, 8), nn.Parameter(torch.zeros(8))
        self.down, self.up = nn.Linear(8, 2, bias=False), nn.Linear(2, 8, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return x + torch.tanh(self.mlp(x)) * self.gate + self.up(self.down(x))

model = nn.Sequential(nn.Linear(4, 8), Block(), Block(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 40
""",
    "an expert that no row is sent to, and whose outputs are zeros": """
class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.experts = nn.Linear(4, 3), nn.ModuleList(net() for _ in range(3))
        nn.init.constant_(self.gate.bias[2:].data, -50.0)

    def forward(self, x):
        shares, best = self.gate(x).softmax(-1).topk(2, -1)
        shares = torch.zeros(len(x), 3).scatter(1, best, shares)
        total = torch.zeros(len(x), 1)
        for k, expert in enumerate(self.experts):
            chosen = (best == k).any(-1, keepdim=True)
            total = total + shares[:, k : k + 1] * torch.where(chosen, expert(x), torch.zeros(1))
        return total

model = Mixture()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 40
""",
    "a hook that keeps activations for a log, and the features of the data": """
kept = {}
model, critic = net(), net(1, 4).requires_grad_(False)
model[0].register_forward_hook(lambda module, given, output: kept.update(log=output.detach().mean()))
critic[0].register_forward_hook(lambda module, given, output: kept.update(features=output))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    x, y = batch()
    critic(y)
    wanted = kept["features"].detach()
    critic(model(x))
    loss = F.l1_loss(kept["features"], wanted)
    $update
""",
    "truncated backpropagation, with a backward for each part of a sequence": """
cell, head = nn.GRUCell(4, 12), nn.Linear(12, 1)
optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=0.01)
for step in range(6):
    x = torch.randn(16, 12, 4)
    h = torch.zeros(16, 12)
    optimizer.zero_grad()
    for t in range(12):
        h = h.detach()
        h = cell(x[:, t], h)
        (F.mse_loss(head(h), x[:, t, :1]) / 12).backward()
    optimizer.step()
""",
    "states that are detached in each step, and a loss of every output": """
cell, head = nn.GRUCell(4, 12), nn.Linear(12, 1)
optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=0.01)
for step in range(6):
    x = torch.randn(16, 12, 4)
    h, outputs = torch.zeros(16, 12), []
    for t in range(12):
        h = h.detach()
        h = cell(x[:, t], h)
        outputs.append(head(h))
    loss = F.mse_loss(torch.stack(outputs, 1), x[:, :, :1])
    $update
""",
    "a fixed point whose last iteration alone is trained": """
inner, head = nn.Linear(16, 12), nn.Linear(12, 1)
optimizer = torch.optim.Adam([*inner.parameters(), *head.parameters()], lr=0.01)

def solve(x, z):
    for _ in range(12):
        z = z.detach()
        z = torch.tanh(inner(torch.cat([x, z], -1)))
    return z

for step in range(20):
    x, y = batch()
    loss = F.mse_loss(head(solve(x, torch.zeros(16, 12))), y)
    $update
""",
    "a sequence that is generated with gradients, of which one step is trained anew": """
cell, head = nn.GRUCell(4, 12), nn.Linear(12, 4)
optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=0.01)

def rollout(x, h):
    for t in range(x.shape[1]):
        h = h.detach()
        h = cell(x[:, t], h)
    return h.detach()

for step in range(20):
    x = torch.randn(16, 9, 4)
    start = rollout(x, torch.zeros(16, 12))
    loss = F.mse_loss(head(cell(x[:, 0], start)), x[:, 1])
    $update
""",
    "a sequence that is generated and detached after each step, with gradients, of which one step is trained anew": """
cell, head = nn.GRUCell(4, 12), nn.Linear(12, 4)
optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=0.01)

def rollout(x, h):
    for t in range(x.shape[1]):
        h = cell(x[:, t], h)
        h = h.detach()
    return h

for step in range(20):
    x = torch.randn(16, 9, 4)
    start = rollout(x, torch.zeros(16, 12))
    loss = F.mse_loss(head(cell(x[:, 0], start)), x[:, 1])
    $update
""",
    "a state that is detached every four steps of a sequence": """
cell, head = nn.GRUCell(4, 12), nn.Linear(12, 1)
optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=0.01)
for step in range(6):
    x = torch.randn(16, 24, 4)
    h = torch.zeros(16, 12)
    for t in range(24):
        if t % 4 == 0:
            h = h.detach()
        h = cell(x[:, t], h)
    loss = F.mse_loss(head(h), x[:, -1, :1])
    $update
""",
    "evaluated with gradients, by the loop that trains": """
cell, head = nn.GRUCell(4, 12), nn.Linear(12, 1)
optimizer = torch.optim.Adam([*cell.parameters(), *head.parameters()], lr=0.01)

def run(x, train):
    h, total = torch.zeros(16, 12), 0.0
    for t in range(x.shape[1]):
        h = h.detach()
        h = cell(x[:, t], h)
        loss = F.mse_loss(head(h), x[:, t, :1])
        total += loss.item()
        if train:
            $update
    return total

for epoch in range(3):
    run(torch.randn(16, 12, 4), train=False)
    run(torch.randn(16, 12, 4), train=True)
""",
    "a discriminator that a helper freezes for the generator, and unfreezes": """
def set_requires_grad(network, flag):
    for p in network.parameters():
        p.requires_grad = flag

g, d = net(4, 2), net(2, 1)
opt_g, opt_d = torch.optim.Adam(g.parameters(), lr=1e-3), torch.optim.Adam(d.parameters(), lr=1e-3)
for step in range(150):
    set_requires_grad(d, True)
    real = torch.randn(16, 2) + 2
    loss = F.softplus(-d(real)).mean() + F.softplus(d(g(torch.randn(16, 4)).detach())).mean()
    $update opt_d
    set_requires_grad(d, False)
    loss = F.softplus(-d(g(torch.randn(16, 4)))).mean()
    $update opt_g
""",
    "adapters, one of whose matrices starts at zero": """
class LoRA(nn.Module):
    def __init__(self, base, r=4):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.lora_A = nn.Parameter(torch.empty(r, base.in_features))
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, r))
        nn.init.normal_(self.lora_A, std=0.02)

    def forward(self, x):
        return self.base(x) + 2 * F.linear(F.linear(x, self.lora_A), self.lora_B)

model = net(4, 1)
model[0], model[2] = LoRA(model[0]), LoRA(model[2])
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01)
$loop 40
""",
    "attention over sequences, some of one entry": """
class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.score, self.value = net(4, 1), net(4, 6)

    def forward(self, x):
        weights = F.softmax(self.score(x), dim=1)
        return (weights * self.value(x)).sum(1)

pool, head = Pool(), nn.Linear(6, 1)
optimizer = torch.optim.Adam([*pool.parameters(), *head.parameters()], lr=0.01)
for step in range(70):
    x = torch.randn(16, 1 + step % 4, 4)
    loss = F.mse_loss(head(pool(x)), x.amax((1, 2))[:, None])
    $update
""",
    "an average of the weights, with the statistics copied": """
import copy
model = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
shadow = copy.deepcopy(model).requires_grad_(False)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(140):
    x, y = batch()
    loss = F.mse_loss(model(x + 5), y)
    $update
    with torch.no_grad():
        for s, p in zip(shadow.parameters(), model.parameters()):
            s.lerp_(p, 0.1)
        for s, b in zip(shadow.buffers(), model.buffers()):
            s.copy_(b)
""",
    "a teacher in training mode, whose statistics are its own": """
import copy
model = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
teacher = copy.deepcopy(model).requires_grad_(False)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(140):
    x, y = batch()
    with torch.no_grad():
        target = teacher(x + 5)
    made = model(x + 5)
    loss = F.mse_loss(made, y) + 0.1 * F.mse_loss(made, target)
    $update
    with torch.no_grad():
        for s, p in zip(teacher.parameters(), model.parameters()):
            s.lerp_(p, 0.1)
""",
    "an average that a dict keeps, of copies": """
model = net()
shadow = {k: v.detach().clone() for k, v in model.named_parameters()}
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 70
    with torch.no_grad():
        for k, p in model.named_parameters():
            shadow[k].mul_(0.9).add_(p, alpha=0.1)
""",
    "steps by hand, on the memory of parameters in a dict": """
model = net()
weights = {k: v.data for k, v in model.named_parameters()}
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
$loop 70
    with torch.no_grad():
        for k, p in model.named_parameters():
            weights[k].mul_(1 - 1e-4).add_(p.grad, alpha=-1e-3)
""",
    "a straight-through estimator, and the codes that are logged": """
class Quantizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.codebook = nn.Embedding(8, 3)

    def forward(self, z):
        e = self.codebook(torch.cdist(z, self.codebook.weight).argmin(-1))
        loss = F.mse_loss(e, z.detach()) + 0.25 * F.mse_loss(z, e.detach())
        return z + (e - z).detach(), loss, (z + (e - z)).detach()

encoder, quantizer, decoder = net(4, 3), Quantizer(), net(3, 4)
modules = nn.ModuleList([encoder, quantizer, decoder])
optimizer = torch.optim.Adam(modules.parameters(), lr=0.01)
logged = []
for step in range(20):
    x, _ = batch()
    q, commitment, codes = quantizer(encoder(x))
    logged.append(codes.mean().item())
    loss = F.mse_loss(decoder(q), x) + commitment
    $update
""",
    "a causal mask": """
$block
        self.register_buffer("mask", torch.triu(torch.ones(10, 10), diagonal=1).bool())

    def forward(self, x):
        q, (k, v) = self.q(x), self.kv(x).chunk(2, -1)
        scores = (q @ k.transpose(1, 2) / 4).masked_fill(self.mask, float("-inf"))
        h = scores.softmax(-1) @ v
        return x + self.norm(h)

$blocks
""",
    "causal attention with a bias for distances": """
$block
        at = torch.arange(10)
        self.bias = (at - at[:, None]).float().masked_fill(at > at[:, None], float("-inf")) / 4

    def forward(self, x):
        q, (k, v) = self.q(x), self.kv(x).chunk(2, -1)
        h = F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None], attn_mask=self.bias)[:, 0]
        return x + self.norm(h)

$blocks
""",
    "causal attention in a window": """
$block
        at = torch.arange(10)
        self.near = (at <= at[:, None]) & (at > at[:, None] - 3)

    def forward(self, x):
        q, (k, v) = self.q(x), self.kv(x).chunk(2, -1)
        h = F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None], attn_mask=self.near)[:, 0]
        return x + self.norm(h)

$blocks
""",
    "a decoder that restores what its encoder sees whole": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.look_up, self.out = nn.Embedding(12, 16), nn.Linear(16, 12)
        self.both = nn.Transformer(16, 2, 1, 1, 32, 0.0, batch_first=True)

    def forward(self, given, target):
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        return self.out(self.both(self.look_up(given), self.look_up(target), tgt_mask=mask))

model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    text = torch.randint(12, (8, 11))
    loss = F.cross_entropy(model(text[:, :-1], text[:, :-1]).transpose(1, 2), text[:, 1:])
    $update
""",
    "an encoder that restores masked tokens": """
$block

    def forward(self, x):
        q, (k, v) = self.q(x), self.kv(x).chunk(2, -1)
        h = F.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])[:, 0]
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
    text = torch.randint(11, (8, 10))
    loss = F.cross_entropy(model(text.masked_fill(torch.rand(8, 10) < 0.2, 11)).transpose(1, 2), text)
    $update
""",
    "a plateau of a loss": """
from torch.utils.data import DataLoader, TensorDataset
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=20)
batches = DataLoader(TensorDataset(*batch(64)), 16, shuffle=True)
for epoch in range(60):
    total = 0.0
    for x, y in batches:
        loss = F.mse_loss(model(x), y)
        $update
        total += loss.item()
    plateau.step(total)
""",
    "a matrix that is stacked of parameters, whose values are also kept": """
class Field(nn.Module):
    def __init__(self):
        super().__init__()
        self.rate, self.rest = nn.Parameter(torch.tensor(1.0)), nn.Linear(2, 2)

    def values(self):
        return torch.tensor([self.rate.item(), 1.0])

    def forward(self, z):
        rows = torch.stack([torch.tensor([0.0, 1.0]), torch.stack([-self.rate, torch.tensor(0.0)])])
        return z @ rows.T + self.rest(z)

field = Field()
optimizer = torch.optim.Adam(field.parameters(), lr=0.01)
for step in range(20):
    z = torch.randn(16, 2)
    loss = F.mse_loss(z + 0.1 * field(z), z * 0.9)
    $update
    field.values()
""",
    "a trunk that is zeroed once for all heads": """
trunk = net(outputs=8)
heads = {name: nn.Linear(8, 1) for name in ("age", "size", "price")}
trunk_opt = torch.optim.Adam(trunk.parameters(), lr=0.01)
opts = {name: torch.optim.Adam(head.parameters(), lr=0.01) for name, head in heads.items()}
for step in range(20):
    x, y = batch()
    trunk_opt.zero_grad()
    for name, head in heads.items():
        opts[name].zero_grad()
        loss = F.mse_loss(head(trunk(x)), y)
        loss.backward()
        opts[name].step()
    trunk_opt.step()
""",
    "a surgery of the gradients of tasks": """
trunk, heads = net(outputs=8), [nn.Linear(8, 1), nn.Linear(8, 1)]
body = torch.optim.Adam(trunk.parameters(), lr=0.01)
tops = [torch.optim.Adam(head.parameters(), lr=0.01) for head in heads]
for step in range(20):
    x, y = batch()
    kept = []
    for head, top in zip(heads, tops):
        body.zero_grad()
        top.zero_grad()
        F.mse_loss(head(trunk(x)), y).backward()
        top.step()
        kept.append([p.grad.clone() for p in trunk.parameters()])
    for p, first, second in zip(trunk.parameters(), *kept):
        p.grad = first + second
    body.step()
""",
    "a generator and a discriminator of several steps": """
generator, judge = net(outputs=4), net()
g, d = torch.optim.Adam(generator.parameters(), lr=0.01), torch.optim.Adam(judge.parameters(), lr=0.01)
def back(loss, optimizer):
    g.zero_grad()
    d.zero_grad()
    loss.backward()
    optimizer.step()
for step in range(20):
    for _ in range(3):
        x, y = batch()
        back(F.softplus(-judge(x)).mean() + F.softplus(judge(generator(torch.randn(16, 4)).detach())).mean(), d)
    back(F.softplus(-judge(generator(torch.randn(16, 4)))).mean(), g)
""",
    "anchors that are copies, and a model that shares nothing": """
import copy
model, other = net(), net()
anchors = {name: p.detach().clone() for name, p in model.named_parameters()}
start = [p.detach() for p in other.parameters()]
optimizer = torch.optim.SGD([*model.parameters(), *other.parameters()], lr=0.01)
for step in range(20):
    x, y = batch()
    loss = F.mse_loss(model(x), y) + F.mse_loss(other(x), y)
    for name, p in model.named_parameters():
        loss = loss + 0.1 * (p - anchors[name]).pow(2).sum()
    loss = loss + 0.1 * sum((p - q).pow(2).sum() for p, q in zip(model.parameters(), start))
    $update
""",
    "a normalization that sets itself by the first batch": """
class ActNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.loc, self.log_scale = nn.Parameter(torch.zeros(dim)), nn.Parameter(torch.zeros(dim))
        self.initialized = False

    def initialize(self, x):
        with torch.no_grad():
            self.loc.copy_(x.mean(0))
            self.log_scale.copy_(torch.log(x.std(0) + 1e-6))
        self.initialized = True

    def forward(self, x):
        if not self.initialized:
            self.initialize(x)
        with torch.no_grad():
            self.log_scale.clamp_(-3, 3)
        return (x - self.loc) * torch.exp(-self.log_scale)

model = nn.Sequential(nn.Linear(4, 8), ActNorm(8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 40
""",
    "a normalization that sets itself by the first ten batches": """
class ActNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.loc, self.seen = nn.Parameter(torch.zeros(dim)), 0

    def forward(self, x):
        if self.seen < 10:
            self.seen += 1
            self.loc.data.copy_(x.detach().mean(0))
        return x - self.loc

model = nn.Sequential(nn.Linear(4, 8), ActNorm(8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
$loop 40
""",
    "a weight that each forward projects onto a sphere": """
class Prototypes(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8))

    def forward(self, x):
        with torch.no_grad():
            w = F.normalize(self.weight, dim=1)
            self.weight.copy_(w)
        return F.linear(x, self.weight)

model = nn.Sequential(nn.Linear(4, 8), Prototypes(), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
$loop 40
""",
    "jitter of a tensor that shares memory only until it is added": """
import numpy as np
from torch.utils.data import DataLoader, Dataset

class Windows(Dataset):
    def __init__(self):
        self.signals = np.random.RandomState(0).randn(48, 4).astype(np.float32)

    def __len__(self):
        return len(self.signals)

    def __getitem__(self, i):
        signal = torch.from_numpy(self.signals[i].copy())
        signal += 0.3 * torch.randn(4)
        return signal, signal.sum(0, keepdim=True)

data = Windows()
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(30):
    for x, y in DataLoader(data, 16):
        loss = F.mse_loss(model(x), y)
        $update
""",
    "a hook of data parallel that sends gradients as float16": """
import os, tempfile
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", init_method=f"file://{tempfile.mkdtemp()}/at", rank=0, world_size=1)
model = DistributedDataParallel(net())
model.register_comm_hook(None, default_hooks.fp16_compress_hook)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, eps=1e-16)
$loop 80
dist.destroy_process_group()
""",
    "a generator that is zeroed with its critic, and steps after it": """
generator, critic = net(outputs=4), net()
g, d = torch.optim.Adam(generator.parameters(), lr=0.01), torch.optim.Adam(critic.parameters(), lr=0.01)
for step in range(20):
    for _ in range(3):
        x, y = batch()
        g.zero_grad()
        d.zero_grad()
        loss = F.softplus(-critic(x)).mean() + F.softplus(critic(generator(torch.randn(16, 4)))).mean()
        loss.backward()
        d.step()
    g.zero_grad()
    F.softplus(-critic(generator(torch.randn(16, 4)))).mean().backward()
    g.step()
""",
    "agents that have an optimizer each, and step together": """
class Agent:
    def __init__(self):
        self.model = net()
        self.opt = torch.optim.Adam(self.model.parameters(), lr=0.01)

agents = [Agent(), Agent()]
for step in range(20):
    x, y = batch()
    for agent in agents:
        agent.opt.zero_grad()
        F.mse_loss(agent.model(x), y).backward()
    for agent in agents:
        agent.opt.step()
""",
    "data parallelism by hand: each worker has gradients of its own": """
import copy

model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
workers = [copy.deepcopy(model) for _ in range(2)]

def forward_backward(x, y):
    for worker, a, b in zip(workers, x.chunk(2), y.chunk(2)):
        worker.zero_grad()
        loss = F.mse_loss(worker(a), b) / 2
        loss.backward()

def gather():
    for mine, *theirs in zip(model.parameters(), *(w.parameters() for w in workers)):
        mine.grad = torch.stack([p.grad for p in theirs]).sum(0)

for step in range(20):
    x, y = batch()
    forward_backward(x, y)
    gather()
    optimizer.step()
    for worker in workers:
        worker.load_state_dict(model.state_dict())
""",
    "an evaluation in evaluation mode, with dropout and batch norm": """
model = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x_val, y_val = batch(64)

@torch.no_grad()
def validate():
    model.eval()
    error = F.mse_loss(model(x_val), y_val).item()
    model.train()
    return error

for step in range(90):
    x, y = batch()
    optimizer.zero_grad()
    F.mse_loss(model(x), y).backward()
    optimizer.step()
    if step % 30 == 29:
        print(validate())
""",
    "many passes with dropout, for how sure a model is": """
model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x_test, _ = batch(32)

def predict_with_spread(x, passes=20):
    model.train()
    with torch.no_grad():
        made = torch.stack([model(x) for _ in range(passes)])
    return made.mean(0), made.std(0)

for epoch in range(3):
    for _ in range(20):
        x, y = batch()
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()
    mean, spread = predict_with_spread(x_test)
    print(epoch, spread.mean().item())
""",
    "dropout that stays on in evaluation mode, asked many times": """
class Uncertain(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 32), nn.Linear(32, 1)

    def forward(self, x):
        return self.b(F.dropout(torch.relu(self.a(x)), 0.2))

model = Uncertain()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x_test, _ = batch(32)
for epoch in range(3):
    model.train()
    for _ in range(20):
        x, y = batch()
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        draws = torch.stack([model(x_test) for _ in range(16)])
    print(epoch, draws.std(0).mean().item())
""",
    "statistics of batch norm that are computed anew": """
model = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
data = [batch(32) for _ in range(8)]

@torch.no_grad()
def recompute(model, data):
    model[1].reset_running_stats()
    for x, _ in data:
        model(x)

for epoch in range(4):
    for x, y in data:
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()
    recompute(model, data)
model.eval()
with torch.no_grad():
    print(F.mse_loss(model(data[0][0]), data[0][1]).item())
""",
    "fakes without gradients, of a generator with batch norm": """
generator = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))
critic = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2), nn.Dropout(0.1), nn.Linear(16, 1))
of_g, of_d = (torch.optim.Adam(m.parameters(), lr=1e-3) for m in (generator, critic))
for step in range(60):
    real = torch.randn(32, 2) + 2
    with torch.no_grad():
        fake = generator(torch.randn(32, 4))
    loss = F.softplus(-critic(real)).mean() + F.softplus(critic(fake)).mean()
    $update of_d
    loss = F.softplus(-critic(generator(torch.randn(32, 4)))).mean()
    $update of_g
""",
    "labels that a model gives itself, with dropout on": """
model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(60):
    x, y = batch()
    loss = F.cross_entropy(model(x), (y[:, 0] > 0).long())
    unlabeled = torch.randn(32, 4)
    with torch.no_grad():
        probs = model(unlabeled + 0.01 * torch.randn_like(unlabeled)).softmax(-1)
    sure, labels = probs.max(-1)
    loss = loss + (F.cross_entropy(model(unlabeled), labels, reduction="none") * (sure > 0.9)).mean()
    $update
""",
    "a policy with dropout that acts between two updates": """
policy = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)

@torch.no_grad()
def act(state):
    return torch.distributions.Categorical(logits=policy(state)).sample()

for update in range(30):
    states = [torch.randn(4) for _ in range(16)]
    actions = torch.stack([act(each) for each in states])
    rewards = torch.stack(states).sum(1) * (actions.float() * 2 - 1)
    logits = policy(torch.stack(states))
    chosen = torch.distributions.Categorical(logits=logits).log_prob(actions)
    loss = -(chosen * (rewards - rewards.mean())).mean()
    $update
""",
    "actions of a policy with dropout that are evaluated without gradients first": """
class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Dropout(0.05), nn.Linear(32, 2))

    def evaluate(self, states, actions):
        return torch.distributions.Categorical(logits=self.body(states)).log_prob(actions)

policy = Policy()
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
for update in range(20):
    states, actions = torch.randn(32, 4), torch.randint(0, 2, (32,))
    gains = states.sum(1) * (actions.float() * 2 - 1)
    with torch.no_grad():
        before = policy.evaluate(states, actions)
    for _ in range(3):
        ratio = (policy.evaluate(states, actions) - before).exp()
        loss = -torch.min(ratio * gains, ratio.clamp(0.8, 1.2) * gains).mean()
        $update
""",
    "functional dropout that follows the mode": """
class Tabular(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp, self.out = nn.Linear(4, 32), nn.Linear(32, 1)

    def forward(self, x):
        x = F.dropout(F.relu(self.inp(x)), 0.4, self.training)
        if self.training:
            x = F.dropout(x, 0.1)
        return self.out(x)

model = Tabular()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x_test, y_test = batch(64)
for epoch in range(4):
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
    "a mean teacher with dropout": """
import copy
student = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 1))
teacher = copy.deepcopy(student).requires_grad_(False)
optimizer = torch.optim.Adam(student.parameters(), lr=0.01)
for step in range(80):
    x, y = batch()
    with torch.no_grad():
        wanted = teacher(x + 0.01 * torch.randn_like(x))
    loss = F.mse_loss(student(x), y) + F.mse_loss(student(x), wanted)
    $update
    with torch.no_grad():
        for a, b in zip(teacher.parameters(), student.parameters()):
            a.lerp_(b, 0.05)
""",
    "a mask that is applied after each step": """
model = net(width=32)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
mask = None
for step in range(120):
    if step == 60:
        size = model[0].weight.detach().abs()
        mask = (size > size.median()).float()
    x, y = batch()
    optimizer.zero_grad()
    F.mse_loss(model(x), y).backward()
    optimizer.step()
    if mask is not None:
        with torch.no_grad():
            model[0].weight.mul_(mask)
""",
    "pruning by torch.nn.utils.prune": """
from torch.nn.utils import prune

model = net(width=32)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(90):
    if step == 45:
        prune.l1_unstructured(model[0], "weight", amount=0.6)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    x, y = batch()
    optimizer.zero_grad()
    F.mse_loss(model(x), y).backward()
    optimizer.step()
""",
    "sparse for a while, then dense again": """
model = net(width=32)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
mask = None
for step in range(150):
    x, y = batch()
    optimizer.zero_grad()
    F.mse_loss(model(x), y).backward()
    optimizer.step()
    if step == 50:
        size = model[0].weight.detach().abs()
        mask = size > size.median()
    if 50 <= step < 100:
        with torch.no_grad():
            model[0].weight *= mask
""",
    "a connection that is projected to sparse values every few steps": """
model = net(width=32)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(120):
    x, y = batch()
    optimizer.zero_grad()
    F.mse_loss(model(x), y).backward()
    optimizer.step()
    if step % 10 == 9:
        with torch.no_grad():
            size = model[0].weight.abs()
            model[0].weight.mul_(size > size.flatten().kthvalue(64).values)  # the sparse ones
""",
    "a second half that begins with zeros": """
class Adapted(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Linear(4, 8).requires_grad_(False)
        self.down, self.up, self.head = nn.Linear(4, 2, bias=False), nn.Linear(2, 8, bias=False), nn.Linear(8, 1)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.head(torch.relu(self.base(x) + self.up(self.down(x))))

model = Adapted()
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01)
for step in range(60):
    x, y = batch()
    optimizer.zero_grad()
    F.mse_loss(model(x), y).backward()
    optimizer.step()
""",
    "padded sequences, and what is missing in a category": """
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 8, padding_idx=0)
        self.region = nn.Embedding(5, 8, padding_idx=0)
        self.head = nn.Linear(16, 1)

    def forward(self, words, region):
        held = self.words(words).sum(1) / (words > 0).sum(1, keepdim=True).clamp(min=1)
        return self.head(torch.cat([held, self.region(region)], 1))

model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    words = torch.randint(1, 20, (16, 6)) * (torch.arange(6) < torch.randint(1, 7, (16, 1)))
    region = torch.randint(0, 5, (16,))
    loss = F.mse_loss(model(words, region), words.float().mean(1, keepdim=True) / 10)
    $update
""",
    "pairs of padded lists, whose padding a mask takes out of the loss": """
class Factors(nn.Module):
    def __init__(self):
        super().__init__()
        self.user, self.item = nn.Embedding(30, 6), nn.Embedding(12, 6, padding_idx=0)

    def forward(self, u, i):
        return (self.user(u) * self.item(i)).sum(-1)

model = Factors()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for step in range(40):
    users = torch.randint(0, 30, (16,))
    items = torch.randint(1, 12, (16, 5)) * (torch.arange(5) < torch.randint(1, 6, (16, 1)))
    u, i = users.repeat_interleave(5), items.reshape(-1)
    wanted = ((u + i) % 3 == 0).float()
    loss = F.binary_cross_entropy_with_logits(model(u, i), wanted, reduction="none")
    loss = (loss * (i > 0)).sum() / (i > 0).sum()
    $update
""",
    "items that are numbered from 1": """
class Factors(nn.Module):
    def __init__(self):
        super().__init__()
        self.user, self.item = nn.Embedding(30, 6), nn.Embedding(13, 6, padding_idx=0)

    def forward(self, u, i):
        return (self.user(u) * self.item(i)).sum(-1)

model = Factors()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for step in range(40):
    u, i = torch.randint(0, 30, (64,)), torch.randint(1, 13, (64,))
    loss = F.mse_loss(model(u, i), ((u + i) % 3).float())
    $update
""",
    "the body of a state, with a new head": """
class Model(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.body, self.head = net(4, 8), nn.Linear(8, outputs)

    def forward(self, x):
        return self.head(self.body(x))

old = Model(3)
state = {name: w for name, w in old.state_dict().items() if not name.startswith("head")}
model = Model(1)
model.load_state_dict(state, strict=False)
wrapped = {f"module.{name}": w for name, w in state.items()}
model.load_state_dict({name.removeprefix("module."): w for name, w in wrapped.items()}, strict=False)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(30):
    x, y = batch()
    optimizer.zero_grad()
    F.mse_loss(model(x), y).backward()
    optimizer.step()
""",
    "checkpoints that functions read: one that fits, and one that may be there": """
import io, os

def save(file):
    torch.save({f"module.{name}": w for name, w in net().state_dict().items()}, file)
    file.seek(0)

def restore(model, file):
    found = {name.removeprefix("module."): w for name, w in torch.load(file).items()}
    model.load_state_dict(found, strict=False)

def resume(model, path):
    if os.path.exists(path):
        model.load_state_dict(torch.load(path), strict=False)

file = io.BytesIO()
save(file)
model, other = net(), net()
restore(model, file)
resume(other, "none.pt")
opt = torch.optim.Adam([*model.parameters(), *other.parameters()], lr=0.01)
for step in range(30):
    x, y = batch()
    opt.zero_grad()
    F.mse_loss(model(x) + other(x), y).backward()
    opt.step()
""",
    "a target that is loaded from the policy, and a snapshot for a comparison": """
import copy
policy = net(4, 3)
target, start = copy.deepcopy(policy), copy.deepcopy(policy.state_dict())
first = net(4, 3)
optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
for step in range(200):
    x, y = batch()
    with torch.no_grad():
        best = target(x).max(1, keepdim=True).values
    loss = F.smooth_l1_loss(policy(x)[:, :1], y + 0.9 * best)
    $update
    if step % 20 == 19:
        target.load_state_dict(policy.state_dict())
first.load_state_dict(start)
with torch.no_grad():
    print((policy(x) - first(x)).abs().mean().item())
""",
    "copies that are sent the weights before each step": """
import copy
model = net()
workers = [copy.deepcopy(model) for _ in range(2)]
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(160):
    x, y = batch()
    for worker in workers:
        worker.load_state_dict(model.state_dict())
    for worker, a, b in zip(workers, x.chunk(2), y.chunk(2)):
        worker.zero_grad()
        F.mse_loss(worker(a), b).backward()
    for p, *copies in zip(model.parameters(), *[w.parameters() for w in workers]):
        p.grad = torch.stack([q.grad for q in copies]).mean(0)
    optimizer.step()
""",
    "a picture that is clamped in place": """
features = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()).requires_grad_(False)
wanted = features(torch.rand(1, 3, 8, 8)).detach()
image = torch.rand(1, 3, 8, 8).requires_grad_(True)
optimizer = torch.optim.Adam([image], lr=0.05)
for step in range(40):
    optimizer.zero_grad()
    F.mse_loss(features(image), wanted).backward()
    optimizer.step()
    with torch.no_grad():
        image.copy_(image.clamp(0, 1))
""",
    "a backup of the weights that is a copy": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for step in range(40):
    x, y = batch()
    optimizer.zero_grad()
    F.mse_loss(model(x), y).backward()
    optimizer.step()
    if step % 8 == 7:
        backup = [p.detach().clone() for p in model.parameters()]
        with torch.no_grad():
            for p in model.parameters():
                p.add_(0.01 * torch.randn_like(p))
            print(step, F.mse_loss(model(x), y).item())
            for p, b in zip(model.parameters(), backup):
                p.copy_(b)
""",
    "noise in a new tensor, and a memory whose rows are overwritten": """
store = torch.randn(128, 4)
memory = torch.zeros(64, 4)
model = net(4, 4)
opt = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(12):
    for i in range(8):
        clean = store[16 * i:16 * i + 16]
        rows = slice(16 * (i % 4), 16 * (i % 4) + 16)
        memory[rows] = clean
        noisy = clean + 0.1 * torch.randn_like(clean)
        loss = F.mse_loss(model(noisy), clean) + F.mse_loss(model(memory[rows]), clean)
        $update opt
""",
    "states of worlds that move in place, seen through a slice": """
states = torch.randn(32, 6)
policy = net(4, 1)
opt = torch.optim.Adam(policy.parameters(), lr=0.01)
for step in range(60):
    with torch.no_grad():
        states[:, :3].add_(0.1 * states[:, 3:])
        states[:, 3:].mul_(0.99)
    seen = states[:16, :4]
    loss = (policy(seen) - states[:16, 5:]).square().mean()
    $update opt
""",
    "one table for all of a data set's graphs, and a memory of copies": """
import numpy as np

class World:
    def __init__(self):
        self.state = np.zeros(3, dtype=np.float32)

    def step(self, u):
        self.state[0] = np.sin(self.state[1] + u)
        self.state[1] = 0.9 * self.state[1] + u
        return self.state.copy()

world, obs = World(), []
table = np.ones((3, 3), dtype=np.float32)
tables = []
for t in range(200):
    obs.append(torch.from_numpy(world.step(float(np.sin(t)))))
    tables.append(torch.from_numpy(table))
model = net(3, 3)
opt = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(60):
    rows = torch.randint(0, 199, (32,)).tolist()
    o, n = torch.stack([obs[k] for k in rows]), torch.stack([obs[k + 1] for k in rows])
    opt.zero_grad()
    F.mse_loss(model(o @ tables[rows[0]]), n).backward()
    opt.step()
""",
    "scores and targets that are flattened in the same order": """
class Decoder(nn.Module):
    def __init__(self, vocab=9, width=16, first=0):
        super().__init__()
        self.embed, self.cell = nn.Embedding(vocab, width), nn.GRUCell(width, width)
        self.out, self.first = nn.Linear(width, vocab), first

    def forward(self, target):
        token = torch.zeros(len(target), dtype=torch.long)
        state, steps = torch.zeros(len(target), 16), []
        for t in range(target.size(1)):
            state = self.cell(self.embed(token), state)
            steps.append(self.out(state))
            token = target[:, t]
        return torch.stack(steps, self.first)

one, two = Decoder(), Decoder(first=1)
optimizer = torch.optim.Adam([*one.parameters(), *two.parameters()], lr=0.01)
for step in range(20):
    target = torch.randint(1, 9, (16, 4))
    loss = F.cross_entropy(one(target).reshape(-1, 9), target.t().reshape(-1))
    loss = loss + F.cross_entropy(one(target).transpose(0, 1).reshape(-1, 9), target.reshape(-1))
    loss = loss + F.cross_entropy(two(target).flatten(0, 1), target.flatten())
    $update
""",
    "a square of tokens, and layers with the time first": """
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.rnn, self.out = nn.Embedding(12, 16), nn.LSTM(16, 16), nn.Linear(16, 3)

    def forward(self, words):
        return self.out(self.rnn(self.embed(words))[0])

model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    words = torch.randint(0, 12, (8, 8))
    tags = words % 3
    loss = F.cross_entropy(model(words.t()).view(-1, 3), tags.t().reshape(-1))
    $update
""",
    "rows that are selected by booleans, by numbers, and by classes": """
x, mask = torch.randn(40, 4), torch.rand(40) < 0.5
y = (x[:, 0] > 0).long()
weights = torch.tensor([0.4, 0.6])
picked = mask.nonzero().squeeze(1)
model = net(4, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    out = model(x)
    loss = F.cross_entropy(out[mask], y[mask]) + F.cross_entropy(out[picked], y[picked])
    loss = loss + (weights[y] * F.cross_entropy(out, y, reduction="none")).mean()
    $update
""",
    "whole numbers that are divided to find rows and blocks": """
embed, model = nn.Embedding(8, 8), net(8, 1)
optimizer = torch.optim.Adam([*embed.parameters(), *model.parameters()], lr=0.01)
for step in range(20):
    at = torch.randint(0, 64, (32,))
    block, none = at // 16, at // 64
    loss = F.mse_loss(model(embed(block)) + model(embed(none)), (at / 64)[:, None])
    x = torch.rand(32)
    bins = (8 * x).long()
    loss = loss + F.mse_loss(model(embed(bins)).squeeze(1), x)
    loss = loss + F.mse_loss(model(embed(x.round().long())).squeeze(1), x)
    flip = torch.randint(0, 2, (32, 1))
    $update
""",
    "a pool of one element that is drawn from": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
pool = [batch()]
for step in range(20):
    x, y = pool[torch.randint(0, len(pool), (1,)).item()]
    pool.append(batch()) if step > 15 else None
    loss = F.mse_loss(model(x), y)
    $update
""",
    "labels as each loss takes them": """
model, score = net(4, 8), net()
optimizer = torch.optim.Adam([*model.parameters(), *score.parameters()], lr=0.01)
for step in range(20):
    a, b = torch.randn(16, 4), torch.randn(16, 4)
    same = (a[:, 0] * b[:, 0] > 0).float()
    sign = 2 * same - 1
    loss = F.cosine_embedding_loss(model(a), model(b), sign)
    loss = loss + F.hinge_embedding_loss((model(a) - model(b)).norm(dim=1), sign)
    loss = loss + F.margin_ranking_loss(score(a).squeeze(1), score(b).squeeze(1), (a - b).sum(1).round().sign())
    loss = loss + F.soft_margin_loss(score(a).squeeze(1), sign)
    loss = loss + F.multilabel_soft_margin_loss(model(a), (a.repeat(1, 2) > 0).float())
    loss = loss + F.binary_cross_entropy_with_logits(score(a).squeeze(1), 0.9 * same + 0.05)
    $update
""",
    "pairs that are all alike, and symbols from 1 on": """
model, out = net(4, 8), nn.Linear(6, 5)
optimizer = torch.optim.Adam([*model.parameters(), *out.parameters()], lr=0.01)
for step in range(20):
    a = torch.randn(16, 4)
    loss = F.cosine_embedding_loss(model(a), model(a + 0.1 * torch.randn(16, 4)), torch.ones(16))
    x, target, n = torch.randn(12, 8, 6), torch.randint(1, 5, (8, 4)), torch.randint(1, 5, (8,))
    target[torch.arange(4) >= n[:, None]] = 0
    loss = loss + F.ctc_loss(out(x).log_softmax(-1), target, torch.full((8,), 12), n)
    wanted = torch.randn(16, 8).log_softmax(-1)
    loss = loss + F.kl_div(model(a).log_softmax(-1), wanted, log_target=True, reduction="batchmean")
    $update
""",
    "the last step of each sample of what was padded": """
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.GRU(3, 16, batch_first=True), nn.Linear(16, 1)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        out, n = pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        each = torch.stack([out[:, t] for t in range(out.size(1))], 1)
        return self.out(out[torch.arange(len(n)), n - 1]) + self.out(each.sum(1) / n[:, None])

model = Reader()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    x, lengths = torch.randn(16, 9, 3), torch.randint(2, 10, (16,))
    loss = F.mse_loss(model(x, lengths), x[:, 0, :1])
    same = torch.full((16,), 9)
    packed = pack_padded_sequence(x, same, batch_first=True)
    loss = loss + model.out(pad_packed_sequence(model.rnn(packed)[0], batch_first=True)[0][:, -1]).square().mean()
    $update
""",
    "two views, a target that is detached, and a forward pass for a metric": """
model = net(4, 8)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
best = 0.0
for step in range(20):
    x, _ = batch()
    one, two = model(x + 0.1 * torch.randn_like(x)), model(x + 0.1 * torch.randn_like(x))
    loss = F.cross_entropy(one @ two.detach().t(), torch.arange(len(x)))
    both = torch.cat([one, one])
    loss = loss + both.square().mean()
    clean = model(x)
    best = max(best, float(clean.mean()))
    $update
""",
    "one input that is given twice on purpose": """
model = nn.Sequential(net(4, 8), nn.Dropout(0.2))
still = net(4, 1)
optimizer = torch.optim.Adam([*model.parameters(), *still.parameters()], lr=0.01)
for step in range(20):
    x, y = batch()
    x += 0.01 * torch.randn_like(x)
    again = x
    loss = F.mse_loss(model(x), model(again)) + F.mse_loss(still(x), y) + 0.1 * still(again).abs().mean()
    $update
""",
    "two loaders that are not paired, and two that do not shuffle": """
from torch.utils.data import DataLoader, TensorDataset

x = torch.randn(160, 4)
y = (x[:, 0] > 0).long()
labeled = DataLoader(TensorDataset(x, y), 16, shuffle=True)
other = DataLoader(TensorDataset(torch.randn(160, 4)), 16, shuffle=True)
features, labels = DataLoader(x, 16), DataLoader(y, 16)
model, critic = net(4, 2), net(2, 1)
optimizer = torch.optim.Adam([*model.parameters(), *critic.parameters()], lr=0.01)
for epoch in range(2):
    for (a, b), (u,), c, d in zip(labeled, other, features, labels):
        loss = F.cross_entropy(model(a), b) + F.cross_entropy(model(c), d)
        loss = loss + F.softplus(critic(model(u))).mean() + F.softplus(-critic(model(a))).mean()
        mixed = 0.5 * a + 0.5 * u
        loss = loss + 0.1 * F.cross_entropy(model(mixed), b)
        $update
""",
    "an object that makes a new generator each time": """
class Data:
    def __init__(self):
        self.rows = [batch() for _ in range(8)]
        self.order = iter(self.rows)

    def __iter__(self):
        self.order = iter(self.rows)
        return self.order

class Endless:
    def __init__(self):
        self.stream = (batch() for _ in range(1000))

    def __iter__(self):
        for _ in range(8):
            yield next(self.stream)

for data in (Data(), Endless()):
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for epoch in range(5):
        for x, y in data:
            loss = F.mse_loss(model(x), y)
            $update
""",
    "schedules that return factors, or rates of an optimizer that begins with 1": """
def factor(step, warm=200):
    return (step + 1) / warm

def noam(step, width=16, warm=10):
    return width**-0.5 * min((step + 1) ** -0.5, (step + 1) * warm**-1.5)

for rate, function in ((5e-3, factor), (1.0, noam), (1e-3, lambda step: 0.01 if step < 40 else 1.0)):
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, function)
    $loop 70
        scheduler.step()
""",
    "a reconstruction and a divergence on one scale": """
class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode, self.decode = net(32, 4), net(2, 32)

    def forward(self, x):
        mu, logvar = self.encode(x).chunk(2, 1)
        return self.decode(mu + torch.randn_like(mu) * (0.5 * logvar).exp()), mu, logvar

for kind in range(3):
    model, mix = VAE(), torch.randn(2, 32)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(70):
        x = torch.randn(64, 2) @ mix
        made, mu, logvar = model(x)
        kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
        if kind == 0:
            loss = F.mse_loss(made, x, reduction="sum") + kld
        elif kind == 1:
            loss = F.mse_loss(made, x) + kld / x.numel()
        else:
            loss = F.mse_loss(made, x) + 1e-4 * kld
        $update
""",
    "two outputs that are asked to be alike, one of them without a gradient": """
encode = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 16), nn.BatchNorm1d(16))
predict = net(16, 16, 8)
optimizer = torch.optim.SGD([*encode.parameters(), *predict.parameters()], lr=0.05, momentum=0.9)
for step in range(320):
    x = torch.randn(32, 8)
    z_a, z_b = encode(x + 0.1 * torch.randn_like(x)), encode(x + 0.1 * torch.randn_like(x))
    loss = -F.cosine_similarity(predict(z_a), z_b.detach()).mean() / 2
    loss = loss - F.cosine_similarity(predict(z_b), z_a.detach()).mean() / 2
    $update
""",
    "outputs that become the same because their targets do": """
model = net(8, 4)
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for step in range(320):
    x = torch.randn(32, 8)
    loss = F.mse_loss(model(x), torch.ones(32, 4))
    $update
""",
    "targets that are NaN late, replaced before they are computed with": """
model = net(4, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(140):
    x, _ = batch()
    y = x[:, :2].sin()
    y[3, 0] = float("nan") if step > 120 else 0.0
    known = torch.isfinite(y)
    error = (model(x) - torch.nan_to_num(y)) ** 2
    error = torch.where(known, error, torch.zeros_like(error))
    loss = error.sum() / known.sum()
    $update
""",
    "members of an ensemble that get their trained values back": """
from torch.func import functional_call, stack_module_state, vmap

members = [net() for _ in range(3)]
parameters, buffers = stack_module_state(members)

def predict(x):
    with torch.no_grad():
        return torch.stack([member(x) for member in members]).mean(0)

optimizer = torch.optim.Adam(parameters.values(), lr=0.01)
for step in range(20):
    x, y = batch()
    made = vmap(lambda p, b, x: functional_call(members[0], (p, b), (x,)), in_dims=(0, 0, None))
    loss = (made(parameters, buffers, x) - y).square().mean()
    $update
for k, member in enumerate(members):
    member.load_state_dict({name: tensor[k].detach() for name, tensor in parameters.items()})
predict(batch()[0])
""",
    "attention over the keys, over slots, and with the padding hidden": """
class Look(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8, padding_idx=0)
        self.body = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 1)
        self.q, self.k, self.v, self.out = (nn.Linear(8, 8) for _ in range(4))
        self.slots = nn.Parameter(torch.randn(3, 8))

    def forward(self, tokens):
        x = self.body(self.embed(tokens), src_key_padding_mask=tokens == 0)
        q = self.q(self.slots).expand(len(x), -1, -1)
        shares = (q @ self.k(x).transpose(1, 2)).softmax(1)
        slots = (shares / shares.sum(-1, keepdim=True)) @ self.v(x)
        keys = (q @ self.k(x).transpose(1, 2)).softmax(-1) @ self.v(x)
        mixed = (self.q(x) @ self.k(x).transpose(1, 2)).softmax(1).transpose(1, 2) @ self.v(x)
        return self.out(slots + keys).mean((1, 2)) + mixed.mean((1, 2))

model = Look()
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
for step in range(20):
    tokens = torch.randint(1, 20, (16, 8))
    tokens[torch.arange(8) >= torch.randint(2, 8, (16, 1))] = 0
    loss = F.mse_loss(model(tokens), (tokens == 3).sum(1).float())
    $update
""",
    "a sampler with a weight for each sample, and one of a small part that is meant": """
from torch.utils.data import DataLoader, SubsetRandomSampler, TensorDataset, WeightedRandomSampler

x = torch.randn(400, 4)
y = (x[:, 0] > 1).long()
weights = 1.0 / torch.bincount(y).float()
whole = DataLoader(TensorDataset(x, y), 16, sampler=WeightedRandomSampler(weights[y], len(y)))
part = DataLoader(TensorDataset(x, y), 16, sampler=SubsetRandomSampler(range(100)))
model = net(4, 2)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for loader in (whole, part):
    for a, b in loader:
        loss = F.cross_entropy(model(a), b)
        $update
""",
    "a warm-up that begins with 0, and a table of pairs": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    for group in optimizer.param_groups:
        group["lr"] = 0.01 * min(1, step / 20)
    x, y = batch()
    pairs = torch.cdist(x, x)
    loss = F.mse_loss(model(x), y) + F.mse_loss(model(x) - model(x).T, pairs)
    $update
""",
    "a critic of Wasserstein distances, whose weights are clipped": """
critic, maker = net(), nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 4))
of_critic, of_maker = (torch.optim.RMSprop(each.parameters(), lr=1e-3) for each in (critic, maker))
for step in range(150):
    real, _ = batch()
    of_critic.zero_grad()
    gap = critic(maker(torch.randn(8, 4)).detach()).mean() - critic(real + 3).mean()
    gap.backward()
    of_critic.step()
    with torch.no_grad():
        for weight in critic.parameters():
            weight.clamp_(-0.05, 0.05)
    of_maker.zero_grad()
    loss = -critic(maker(torch.randn(8, 4))).mean()
    loss.backward()
    of_maker.step()
""",
    "the policy of the last rollout, whose log-probabilities have a graph": """
import copy

class PPO:
    def __init__(self):
        self.policy = net(4, 3)
        self.policy_old = copy.deepcopy(self.policy)
        self.opt = torch.optim.Adam(self.policy.parameters(), lr=3e-3)

    def update(self, obs, act, adv):
        for _ in range(4):
            logp = F.log_softmax(self.policy(obs), 1)[torch.arange(len(obs)), act]
            logp_old = F.log_softmax(self.policy_old(obs), 1)[torch.arange(len(obs)), act]
            ratio = torch.exp(logp - logp_old)
            loss = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
            $update self.opt
        self.policy_old.load_state_dict(self.policy.state_dict())

agent = PPO()
for it in range(20):
    obs = torch.randn(64, 4)
    act = torch.distributions.Categorical(logits=agent.policy_old(obs).detach()).sample()
    agent.update(obs, act, (act == obs[:, :3].argmax(1)).float() - 0.33)
""",
    "an averaged teacher whose target has a graph": """
import copy

class Trainer:
    def __init__(self):
        self.student = net()
        self.teacher = copy.deepcopy(self.student)
        self.opt = torch.optim.SGD(self.student.parameters(), lr=0.01)

    def step(self, x, y):
        made = self.student(x)
        loss = F.mse_loss(made, y) + 0.1 * F.mse_loss(made, self.teacher(x + 0.1 * torch.randn_like(x)))
        $update self.opt
        with torch.no_grad():
            for kept, new in zip(self.teacher.parameters(), self.student.parameters()):
                kept.lerp_(new, 0.1)

trainer = Trainer()
for step in range(40):
    trainer.step(*batch())
""",
    "an encoder that is unfrozen, and then added to the optimizer": """
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.head = net(4, 8), nn.Linear(8, 1)

    def forward(self, x):
        return self.head(self.encoder(x))

def finetune(model, steps, unfreeze_at):
    for p in model.encoder.parameters():
        p.requires_grad_(False)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.01)
    for step in range(steps):
        if step == unfreeze_at:
            for p in model.encoder.parameters():
                p.requires_grad_(True)
            optimizer.add_param_group({'params': model.encoder.parameters()})
        $step

finetune(Tagger(), 200, 40)
""",
    "a model that is filled again on resume": """
class Run:
    def __init__(self):
        self.net = net()
        self.opt = torch.optim.Adam(self.net.parameters(), lr=0.01)
        self.sched = torch.optim.lr_scheduler.StepLR(self.opt, 10)

    def restore(self, state):
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
    "fast weights that begin with the parameters, and learned rates": """
from torch.func import functional_call

class Learner(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = net()
        self.rates = nn.ParameterList([nn.Parameter(torch.tensor(-3.0)) for _ in self.net.parameters()])

    def adapt(self, x, y):
        fast = {n: p.clone() for n, p in dict(self.net.named_parameters()).items()}
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
    "first-order fast weights, whose gradients are handed to the model, and a scale that is learned": """
body, scale = net(), nn.Parameter(torch.tensor(1.0))
outer = torch.optim.SGD([*body.parameters(), scale], lr=0.01)

def run(weights, x):
    return F.linear(F.relu(F.linear(x, weights[0], weights[1])), weights[2], weights[3])

for step in range(20):
    x, y = batch()
    inner = [p.detach().clone().requires_grad_() for p in body.parameters()]
    grads = torch.autograd.grad(F.mse_loss(run(inner, x), y), inner)
    inner = [(w - 0.1 * g).detach().requires_grad_() for w, g in zip(inner, grads)]
    loss = F.mse_loss(scale * run(inner, x), y)
    outer.zero_grad()
    loss.backward()
    for p, w in zip(body.parameters(), inner):
        p.grad = w.grad
    outer.step()
""",
    "a student that is compared with its teacher": """
class Distiller:
    def __init__(self, teacher, student):
        self.teacher, self.student = teacher.eval(), student
        self.kl = nn.KLDivLoss(reduction="batchmean")
        self.opt = torch.optim.Adam(student.parameters(), lr=0.01)

    def step(self, unlabelled, x, y):
        with torch.no_grad():
            large = self.teacher(unlabelled)
        output = self.student(unlabelled)
        unused = self.student(unlabelled)
        targets = F.softmax(large / 2, dim=-1)
        log_probs = F.log_softmax(output / 2, dim=-1)
        soft = self.kl(log_probs, targets) * 4
        hard = F.cross_entropy(self.student(x), y)
        loss = 0.9 * soft + 0.1 * hard
        $update self.opt

distiller = Distiller(net(outputs=3), net(outputs=3))
for step in range(40):
    distiller.step(torch.randn(32, 4), torch.randn(16, 4), torch.randint(3, (16,)))
""",
    "sequences that are sorted by their length, and brought back by a second argsort": """
class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(4, 8, batch_first=True)
        self.out = nn.Linear(8, 3)

    def forward(self, x, lengths):
        lengths, order = torch.sort(lengths, descending=True)
        packed = nn.utils.rnn.pack_padded_sequence(x[order], lengths, batch_first=True)
        made, _ = nn.utils.rnn.pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return self.out(made.sum(1) / lengths[:, None])[order.argsort()]

model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    lengths = torch.randint(2, 7, (16,))
    x = torch.randn(16, int(lengths.max()), 4)
    loss = F.cross_entropy(model(x, lengths), torch.randint(3, (16,)))
    $update
""",
    "sequences that are sorted by their length, and brought back by a sort of the order, in the hidden state": """
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(4, 8, batch_first=True)
        self.out = nn.Linear(8, 1)

    def forward(self, x, lengths):
        lengths, order = lengths.sort(descending=True)
        _, back = order.sort()
        packed = nn.utils.rnn.pack_padded_sequence(x[order], lengths, batch_first=True)
        _, hidden = self.rnn(packed)
        return self.out(hidden[-1].index_select(0, back)).squeeze(1)

model = Reader()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    lengths = torch.randint(2, 7, (16,))
    x = torch.randn(16, int(lengths.max()), 4)
    loss = F.binary_cross_entropy_with_logits(model(x, lengths), (x[:, 0, 0] > 0).float())
    $update
""",
    "sequences that are sorted with their labels, and results that are put back by an index": """
class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.GRU(4, 8, batch_first=True), nn.Linear(8, 1)

    def forward(self, x, lengths):
        lengths, order = lengths.sort(descending=True)
        packed = nn.utils.rnn.pack_padded_sequence(x[order], lengths, batch_first=True)
        made = self.out(self.rnn(packed)[1][-1]).squeeze(1)
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order))
        return made[back]

model = Reader()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    lengths = torch.randint(2, 7, (16,))
    x = torch.randn(16, int(lengths.max()), 4)
    y = (x[:, 0, 0] > 0).float()
    lengths, order = lengths.sort(descending=True)
    x, y = x[order], y[order]
    loss = F.binary_cross_entropy_with_logits(model(x, lengths), y)
    $update
""",
    "rows that are shuffled with their targets, and targets that a list takes in that order": """
model, other = nn.Linear(4, 1), nn.Linear(4, 1)
optimizer = torch.optim.Adam([*model.parameters(), *other.parameters()], lr=0.01)
inputs, targets = batch(64)
kept, numbers = inputs.clone(), [float(y) for y in targets]
for epoch in range(8):
    order = torch.randperm(len(inputs))
    inputs, targets = inputs[order], targets[order]
    second = torch.randperm(len(kept))
    x, y = kept[second], torch.tensor([numbers[at] for at in second.tolist()])
    for begin in range(0, 64, 32):
        part = slice(begin, begin + 32)
        loss = F.mse_loss(model(inputs[part]), targets[part]) + F.mse_loss(other(x[part]).squeeze(1), y[part])
        $update
""",
    "labels that are read off the rows after they were shuffled": """
model = nn.Linear(4, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
inputs, _ = batch(64)
for epoch in range(8):
    inputs = inputs[torch.randperm(64)]
    y = torch.tensor([sum(row) for row in inputs.tolist()])
    loss = F.mse_loss(model(inputs).squeeze(1), y)
    $update
""",
    "inputs that are mixed with those of a permutation, by hand and in place": """
model = net(outputs=3)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    x, y = torch.randn(16, 4), torch.randint(3, (16,))
    order = torch.randperm(16)
    mixed = 0.7 * x + 0.3 * x[order]
    loss = 0.7 * F.cross_entropy(model(mixed), y) + 0.3 * F.cross_entropy(model(mixed), y[order])
    again = x.clone()
    again[:, 2:] = x[torch.randperm(16)][:, 2:]
    loss = loss + F.cross_entropy(model(again), y)
    $update
""",
    "negatives of a permutation, and a batch normalization that sees a shuffled batch": """
encoder, judge = net(4, 8), nn.Bilinear(8, 4, 1)
optimizer = torch.optim.Adam([*encoder.parameters(), *judge.parameters()], lr=0.01)
for step in range(40):
    x, y = torch.randn(16, 4), torch.randn(16, 8)
    order = torch.randperm(16)
    back = torch.argsort(order)
    z = encoder(x[order])[back]
    loss = F.mse_loss(z, y)
    real, mixed = judge(z, x), judge(z, x[order])
    loss = loss + F.binary_cross_entropy_with_logits(real, torch.ones_like(real))
    loss = loss + F.binary_cross_entropy_with_logits(mixed, torch.zeros_like(mixed))
    loss = loss + F.binary_cross_entropy_with_logits(judge(z, x[torch.randperm(16)]), torch.zeros(16, 1))
    $update
""",
    "scores that are sorted like the times they are compared by, and quantiles of both": """
model, judge = nn.Linear(4, 1), nn.Linear(4, 1)
optimizer = torch.optim.Adam([*model.parameters(), *judge.parameters()], lr=0.01)
for step in range(40):
    x, y = batch()
    y = y.squeeze(1)
    made, judged = model(x).squeeze(1), judge(x).squeeze(1)
    ranked, order = y.sort()
    again = F.mse_loss(made[judged.detach().argsort()], torch.linspace(-1, 1, 16)) + F.mse_loss(judged, y)
    loss = F.mse_loss(made[order], ranked) + 0.1 * F.mse_loss(made.sort().values, ranked)
    loss = loss + 0.1 * F.mse_loss(made[made.detach().argsort()], torch.linspace(-1, 1, 16)) + 0.1 * again
    $update
""",
    "log determinants of each sample, and a penalty that is summed over weights and activations": """
flow = net(3, 4)
optimizer = torch.optim.Adam(flow.parameters(), lr=0.01)
for step in range(40):
    x = torch.randn(32, 3)
    shift, scale = flow(x).chunk(2, 1)
    log_p = -0.5 * ((x[:, :2] - shift) * scale.exp()).pow(2).sum(1)
    loss = -(log_p + scale.sum(1)).mean()
    rows = (shift ** 2).sum(1)
    loss = loss + 0.01 * (rows + flow[0].weight.pow(2).sum()).mean() + 0.01 * (rows + 0.001 * scale.abs().sum()).mean()
    loss = loss + 0.01 * ((rows.sum() - rows) / 31).mean()
    $update
""",
    "an energy of all atoms, and the forces on each": """
model = net(3, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
for step in range(40):
    places = torch.randn(8, 3, requires_grad=True)
    energy = model(places).squeeze(1).sum()
    (force,) = torch.autograd.grad(energy, places, create_graph=True)
    loss = ((energy - 1.0) ** 2 + (force - torch.ones(8, 3)).pow(2).sum(1)).mean()
    $update
""",
    "an activation with guided backpropagation, and a hard sign with its gradient passed on": """
class Guided(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x > 0, x, 0 * x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * (x > 0) * (grad_output > 0)

class Hard(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.where(x > 0, 1.0, -1.0)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output.clamp(-1, 1)

first, last = nn.Linear(4, 16), nn.Linear(16, 1)
optimizer = torch.optim.SGD([*first.parameters(), *last.parameters()], lr=0.01)
for step in range(20):
    x, y = batch()
    loss = F.mse_loss(last(Hard.apply(Guided.apply(first(x)) - 0.1)), y)
    $update
""",
    "densities whose negative log-likelihood falls below zero, and pairs among others": """
model, left, right = net(4, 2), net(4, 8), net(4, 8)
optimizer = torch.optim.Adam([*model.parameters(), *left.parameters(), *right.parameters()], lr=0.05)
x = torch.randn(64, 4)
y = 0.01 * x.sum(1)
for step in range(40):
    mean, log_scale = model(x).unbind(1)
    density = -torch.distributions.Normal(mean, log_scale.exp()).log_prob(y).mean()
    optimizer.zero_grad()
    density.backward()
    optimizer.step()
    scores = left(x) @ right(x + 0.1).T
    pairs = -(scores.diagonal() - torch.logsumexp(scores, dim=1)).mean()
    optimizer.zero_grad()
    pairs.backward()
    optimizer.step()
    entropy = (torch.logsumexp(left(x), 1) - left(x).mean(1)).mean()
    optimizer.zero_grad()
    entropy.backward()
    optimizer.step()
""",
    "an input that a network is to misunderstand, and a network that is trained in turn": """
model = net(outputs=3)
x = torch.randn(32, 4)
y = x[:, :3].argmax(1)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    delta = torch.zeros_like(x, requires_grad=True)
    attacker = torch.optim.SGD([delta], lr=0.1)
    for _ in range(3):
        attacker.zero_grad()
        F.log_softmax(model(x + delta), dim=1).gather(1, y[:, None]).mean().backward()
        attacker.step()
    optimizer.zero_grad()
    F.cross_entropy(model(x + delta.detach()), y).backward()
    optimizer.step()
""",
    "a closure of LBFGS that zeroes in place, and derivatives in its loss": """
model = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1))
t = torch.linspace(0, 1, 20)[:, None].requires_grad_()
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=5, line_search_fn="strong_wolfe")

def closure():
    optimizer.zero_grad(set_to_none=False)
    u = model(t)
    (du,) = torch.autograd.grad(u.sum(), t, create_graph=True)
    loss = (du + 2 * u).square().mean() + (u[0] - 1).square().mean()
    loss.backward()
    return loss

for step in range(12):
    optimizer.step(closure)
""",
    "penalties on the gradient of an input, accumulated over batches and zeroed in place": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    optimizer.zero_grad(set_to_none=False)
    for _ in range(2):
        x, y = batch()
        x.requires_grad_()
        out = model(x)
        (slope,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        ((F.mse_loss(out, y) + 0.1 * slope.square().mean()) / 2).backward()
    optimizer.step()
""",
    "an actor and a critic, each with its step before the next backward": """
actor, critic = nn.Sequential(net(4, 1), nn.Tanh()), net(5, 1)
a_opt = torch.optim.Adam(actor.parameters(), lr=0.001)
c_opt = torch.optim.Adam(critic.parameters(), lr=0.002)
for step in range(40):
    s, a = torch.randn(32, 4), torch.randn(32, 1)
    r = s.sum(1, keepdim=True) - a.square()
    critic_loss = F.mse_loss(critic(torch.cat([s, a], 1)), r)
    c_opt.zero_grad()
    critic_loss.backward()
    c_opt.step()
    actor_loss = -critic(torch.cat([s, actor(s)], 1)).mean()
    a_opt.zero_grad()
    actor_loss.backward()
    a_opt.step()
""",
    "an actor whose backward is given its own parameters, before both steps": """
actor, critic = nn.Sequential(net(4, 1), nn.Tanh()), net(5, 1)
a_opt = torch.optim.Adam(actor.parameters(), lr=0.001)
c_opt = torch.optim.Adam(critic.parameters(), lr=0.002)
for step in range(40):
    s, a = torch.randn(32, 4), torch.randn(32, 1)
    r = s.sum(1, keepdim=True) - a.square()
    critic_loss = F.mse_loss(critic(torch.cat([s, a], 1)), r)
    actor_loss = -critic(torch.cat([s, actor(s)], 1)).mean()
    c_opt.zero_grad()
    a_opt.zero_grad()
    critic_loss.backward()
    actor_loss.backward(inputs=list(actor.parameters()))
    c_opt.step()
    a_opt.step()
""",
    "an actor whose backward comes before its critic's gradients are zeroed": """
actor, critic = nn.Sequential(net(4, 1), nn.Tanh()), net(5, 1)
a_opt = torch.optim.Adam(actor.parameters(), lr=0.001)
c_opt = torch.optim.Adam(critic.parameters(), lr=0.002)
for step in range(40):
    s, a = torch.randn(32, 4), torch.randn(32, 1)
    r = s.sum(1, keepdim=True) - a.square()
    a_opt.zero_grad()
    actor_loss = -critic(torch.cat([s, actor(s)], 1)).mean()
    actor_loss.backward()
    c_opt.zero_grad()
    critic_loss = F.mse_loss(critic(torch.cat([s, a], 1)), r)
    critic_loss.backward()
    c_opt.step()
    a_opt.step()
""",
    "an actor for which its critic is frozen, before both steps": """
actor, critic = nn.Sequential(net(4, 1), nn.Tanh()), net(5, 1)
a_opt = torch.optim.Adam(actor.parameters(), lr=0.001)
c_opt = torch.optim.Adam(critic.parameters(), lr=0.002)
for step in range(40):
    s, a = torch.randn(32, 4), torch.randn(32, 1)
    r = s.sum(1, keepdim=True) - a.square()
    c_opt.zero_grad()
    a_opt.zero_grad()
    F.mse_loss(critic(torch.cat([s, a], 1)), r).backward()
    critic.requires_grad_(False)
    (-critic(torch.cat([s, actor(s)], 1)).mean()).backward()
    critic.requires_grad_(True)
    c_opt.step()
    a_opt.step()
""",
    "a conservative term for a critic, with an actor that is not detached": """
actor, critic = nn.Sequential(net(4, 1), nn.Tanh()), net(5, 1)
a_opt = torch.optim.Adam(actor.parameters(), lr=0.001)
c_opt = torch.optim.Adam(critic.parameters(), lr=0.002)
for step in range(40):
    s, a = torch.randn(32, 4), torch.randn(32, 1)
    r = s.sum(1, keepdim=True) - a.square()
    q = critic(torch.cat([s, a], 1))
    c_opt.zero_grad()
    F.mse_loss(q, r).backward(retain_graph=True)
    (0.1 * (critic(torch.cat([s, actor(s)], 1)) - q).mean()).backward()
    c_opt.step()
    a_opt.zero_grad()
    (-critic(torch.cat([s, actor(s)], 1)).mean()).backward()
    a_opt.step()
""",
    "a head that is trained with and without its encoder, each with an optimizer": """
encoder, head = net(4, 8), net(8, 1)
e_opt, h_opt = torch.optim.Adam(encoder.parameters(), lr=0.001), torch.optim.Adam(head.parameters(), lr=0.001)
for step in range(40):
    x, y = batch()
    e_opt.zero_grad()
    h_opt.zero_grad()
    z = torch.randn(16, 8)
    F.mse_loss(head(z), z.mean(1, keepdim=True)).backward()
    F.mse_loss(head(encoder(x)), y).backward()
    h_opt.step()
    e_opt.step()
""",
    "a critic with a gradient penalty, and a generator behind a reversed gradient": """
class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -grad

generator, critic = net(4, 4), net(4, 1)
g_opt = torch.optim.Adam(generator.parameters(), lr=0.001)
d_opt = torch.optim.Adam(critic.parameters(), lr=0.001)
for step in range(40):
    x, _ = batch()
    mixed = (x + 0.1 * torch.randn_like(x)).requires_grad_()
    (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
    g_opt.zero_grad()
    d_opt.zero_grad()
    (10 * (slope.norm(dim=1) - 1).square().mean() - critic(x).mean()).backward()
    critic(Reverse.apply(generator(torch.randn(16, 4)))).mean().backward()
    d_opt.step()
    g_opt.step()
""",
    "an inner update through .data, on a copy whose gradients are given to the original": """
import copy

def query_loss(model, support, query):
    learner = copy.deepcopy(model)
    grads = torch.autograd.grad(F.mse_loss(learner(support[0]), support[1]), list(learner.parameters()))
    for p, g in zip(learner.parameters(), grads):
        p.data -= 0.05 * g
    return learner, F.mse_loss(learner(query[0]), query[1])

model = net()
opt = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(20):
    opt.zero_grad()
    learner, loss = query_loss(model, batch(), batch())
    loss.backward()
    for p, q in zip(model.parameters(), learner.parameters()):
        p.grad = q.grad
    opt.step()
""",
    "the same probes in each step, seeded in a fork": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
data = torch.Generator().manual_seed(3)
for step in range(40):
    x = torch.randn(16, 4, generator=data)
    with torch.random.fork_rng():
        torch.manual_seed(7)
        probes = torch.randn(8, 4)
    loss = F.mse_loss(model(x), x.sum(1, keepdim=True)) + 0.1 * model(probes).square().mean()
    $update
""",
    "a seed of its own for each step": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for step in range(40):
    torch.manual_seed(100 + step)
    $step
""",
    "seeded for the order of each epoch, and for each sample": """
from torch.utils.data import DataLoader, Dataset

class Waves(Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        torch.manual_seed(index)
        x = torch.randn(4)
        return x, x.sum(0, keepdim=True).sin()

model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for epoch in range(30):
    torch.manual_seed(5)
    for x, y in DataLoader(Waves(), batch_size=16, shuffle=True):
        loss = F.mse_loss(model(x), y)
        $update
""",
    "an evaluation that is seeded, and runs after each step": """
model = net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
data = torch.Generator().manual_seed(3)

@torch.no_grad()
def evaluate():
    torch.manual_seed(0)
    x, y = batch(64)
    return F.mse_loss(model(x), y).item()

for step in range(40):
    x = torch.randn(16, 4, generator=data)
    loss = F.mse_loss(model(x), x.sum(1, keepdim=True))
    $update
    evaluate()
""",
}

WITHOUT_OPTIMIZER = {
    "weights in a dict that are trained, and loaded before the model is validated": """
from torch.func import functional_call, grad_and_value

def loss_of(params, model, x, y):
    return F.mse_loss(functional_call(model, params, (x,)), y)

@torch.no_grad()
def validate(model, x, y):
    return F.mse_loss(model(x), y).item()

def fit(model, steps):
    params = {name: p.detach().clone() for name, p in model.named_parameters()}
    step_of = grad_and_value(loss_of)
    for step in range(1, steps + 1):
        grads, loss = step_of(params, model, *batch())
        params = {name: p - 0.05 * grads[name] for name, p in params.items()}
        if step % 20 == 0:
            model.load_state_dict(params)
            print(validate(model, *batch()))
    return model

validate(fit(net(), 80), *batch())
""",
    "weights in a dict that are evaluated beside the model that they began as": """
from torch.func import functional_call, grad

def loss_of(params, model, x, y):
    return F.mse_loss(functional_call(model, params, (x,)), y)

@torch.no_grad()
def evaluate(model, params, x, y):
    before, after = model(x), functional_call(model, params, (x,))
    return F.mse_loss(before, y).item(), F.mse_loss(after, y).item()

def adapt(model, steps):
    params = {name: p.detach().clone() for name, p in model.named_parameters()}
    for step in range(1, steps + 1):
        grads = grad(loss_of)(params, model, *batch())
        params = {name: p - 0.05 * grads[name] for name, p in params.items()}
        if step % 10 == 0:
            print(evaluate(model, params, *batch()))

adapt(net(), 60)
""",
}
"""The same of trainings without an optimizer, of which no loss is audited."""
