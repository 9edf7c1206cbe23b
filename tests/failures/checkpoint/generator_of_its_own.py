# code: BS210
# variable: MoE
# cause: noise = torch.rand(logits.shape, generator=self.gen)
# fix: torch.rand(logits.shape)
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


class MoE(nn.Module):
    def __init__(self, d, n=3):
        super().__init__()
        self.gate = nn.Linear(d, n)
        self.experts = nn.ModuleList(Expert(d) for _ in range(n))
        self.jitter = 0.3

    def route(self, x):
        logits = self.gate(x)
        if self.training:
            noise = torch.rand(logits.shape, generator=self.gen)
            logits = logits + self.jitter * noise
        return logits.softmax(-1).max(-1)

    def forward(self, x):
        w, idx = self.route(x)
        out = torch.zeros_like(x)
        for k, expert in enumerate(self.experts):
            mask = idx == k
            if mask.any():
                out[mask] = expert(x[mask])
        return x + w.unsqueeze(-1) * out


class Expert(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def forward(self, x):
        return self.fc2(F.gelu(self.fc1(x)))


class Model(nn.Module):
    def __init__(self, d=16, depth=2, seed=0):
        super().__init__()
        gen = torch.Generator().manual_seed(seed)
        self.layers = nn.ModuleList(MoE(d) for _ in range(depth))
        for layer in self.layers:
            layer.gen = gen
        self.head = nn.Linear(d, 4)

    def forward(self, x):
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False)
        return self.head(x)


torch.manual_seed(0)
model = Model()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
x = torch.randn(64, 16)
y = x[:, :4].argmax(1)
for step in range(20):
    loss = F.cross_entropy(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
