"""Gradient accumulation with clipping and a GradScaler (disabled on CPU)."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
ACCUM = 4


class GRUTagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(20, 16)
        self.rnn = nn.GRU(16, 24, batch_first=True, bidirectional=True)
        self.out = nn.Linear(48, 3)

    def forward(self, t):
        return self.out(self.rnn(self.emb(t))[0])


tok = torch.randint(0, 20, (512, 8))
tag = (tok + torch.roll(tok, 1, dims=1)) % 3
tag[:, 0] = 0
loader = DataLoader(TensorDataset(tok, tag), batch_size=8, shuffle=True)
model = GRUTagger()
opt = torch.optim.Adam(model.parameters(), lr=1e-2)
scaler = torch.amp.GradScaler('cpu', enabled=False)
updates = 0
for epoch in range(6):
    tot = 0.0
    opt.zero_grad()
    for k, (x, y) in enumerate(loader, 1):
        with torch.autocast('cpu', dtype=torch.bfloat16, enabled=False):
            loss = F.cross_entropy(model(x).reshape(-1, 3), y.reshape(-1)) / ACCUM
        scaler.scale(loss).backward()
        tot += loss.item() * ACCUM
        if k % ACCUM == 0:
            scaler.unscale_(opt)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(opt)
            scaler.update()
            opt.zero_grad()
            updates += 1
    print(f'epoch {epoch} updates {updates} loss {tot / len(loader):.4f}')
