import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(0)
SLOTS, DIM = 6, 8


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(DIM, 32)
        self.k = nn.Linear(DIM, 32)

    def forward(self, query, mem):
        return torch.einsum('bd,bsd->bs', self.q(query), self.k(mem)) / 32 ** 0.5


class PointerNet(nn.Module):
    """looks up one memory slot and classifies what is stored in it"""
    def __init__(self):
        super().__init__()
        self.scorer = Scorer()
        self.value = nn.Linear(DIM, 32)
        self.head = nn.Linear(32, 4)

    def forward(self, query, mem):
        scores = self.scorer(query, mem)
        pick = F.one_hot(scores.softmax(-1).argmax(-1), SLOTS).float()
        read = torch.einsum('bs,bsd->bd', pick, torch.relu(self.value(mem)))
        return self.head(read)


def batch(n=64):
    keys = F.one_hot(torch.stack([torch.randperm(SLOTS)[:SLOTS] for _ in range(n)]), SLOTS)[:, :, :4].float()
    vals = torch.randint(0, 4, (n, SLOTS))
    mem = torch.cat([keys, F.one_hot(vals, 4).float()], -1)
    want = torch.randint(0, SLOTS, (n,))
    query = mem[torch.arange(n), want].clone()
    query[:, 4:] = 0
    return query, mem, vals[torch.arange(n), want]


model = PointerNet()
optim = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(200):
    q, m, y = batch()
    logits = model(q, m)
    loss = F.cross_entropy(logits, y)
    optim.zero_grad()
    loss.backward()
    optim.step()
    if step % 40 == 39:
        acc = (logits.argmax(-1) == y).float().mean().item()
        print(f'step {step + 1:4d} | loss {loss.item():.3f} | acc {acc:.2f}')
