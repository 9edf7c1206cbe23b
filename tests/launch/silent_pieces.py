"""What many silent programs have in common: a line `$update` in them stands for the piece of that name."""

from __future__ import annotations

import re
import textwrap

PIECES = {
    "update": """\
{given}.zero_grad()
loss.backward()
{given}.step()
""",
    "step": """\
x, y = batch()
loss = F.mse_loss(model(x), y)
$update
""",
    "loop": """\
for step in range({given}):
    $step
""",
    "denoiser": """\
T = 50
kept = torch.cumprod(1 - torch.linspace(1e-4, 0.1, T), 0)

class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = net(5, 4, 32)

    def forward(self, x, t):
        return self.net(torch.cat([x, t[:, None] / T], 1))
""",
    "images": """\
model = Denoiser()
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
for step in range(20):
    x0 = torch.randn(32, 4) * torch.tensor([1.0, 2.0, 3.0, 4.0])
    t = torch.randint(0, T, (32,))
    a = kept[t][:, None]
""",
    "block": """\
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.kv, self.norm = nn.Linear(16, 16), nn.Linear(16, 32), nn.LayerNorm(16)
""",
    "blocks": """\
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
    text = torch.randint(12, (8, 11))
    loss = F.cross_entropy(model(text[:, :-1]).transpose(1, 2), text[:, 1:])
    $update
""",
    "game": """\
class Env:
    def __init__(self):
        self.rng = np.random.default_rng(0)
        self.state = np.zeros(3, dtype=np.float32)

    def reset(self):
        self.state[:] = self.rng.standard_normal(3)
        self.t = 0
        return self.state

    def step(self, action):
        self.state[:] = 0.9 * self.state + 0.1 * (action - 1) + 0.01 * self.rng.standard_normal(3)
        self.t += 1
        return self.state, -float(abs(self.state).sum()), self.t >= 20
""",
    "play": """\
random.seed(0)
env, memory, q = Env(), Memory(), net(3, 3)
optimizer = torch.optim.Adam(q.parameters(), lr=0.001)
for episode in range(12):
    s, done = env.reset(), False
    while not done:
        a = random.randrange(3)
        s2, r, done = env.step(a)
""",
    "replay": """\
if len(memory.items) >= 40:
    x, chosen, rewards, after = memory.sample(32)
    with torch.no_grad():
        goal = rewards + 0.9 * q(after).max(1).values
    loss = F.smooth_l1_loss(q(x).gather(1, chosen[:, None]).squeeze(1), goal)
    $update
""",
}
"""Each piece by its name. `{given}` in it is what stands behind the name, or `optimizer`."""


def written(programs: dict[str, str]) -> dict[str, str]:
    """The programs as files have them, with each piece written out at the indent of its line."""
    return {name: _written(program) for name, program in programs.items()}


def _written(program: str) -> str:
    while "$" in program:
        program = re.sub(
            r"^( *)\$(\w+)(?: (\S+))?\n",
            lambda line: textwrap.indent(PIECES[line[2]].replace("{given}", line[3] or "optimizer"), line[1]),
            program,
            flags=re.MULTILINE,
        )
    return program
