import math
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.optim.lr_scheduler import LambdaLR

torch.manual_seed(0)
WARMUP, TOTAL = 30, 200


def schedule(step):
    if step < WARMUP:
        return step / WARMUP
    return 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (TOTAL - WARMUP)))


class TinyTransformer(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(12, 32)
        self.pos = nn.Parameter(0.1 * torch.randn(10, 32))
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, 1)
        self.out = nn.Linear(32, 12)

    def forward(self, t):
        return self.out(self.enc(self.emb(t) + self.pos))


model = TinyTransformer()
opt = torch.optim.AdamW(model.parameters(), lr=6e-3, weight_decay=0.01)
sched = LambdaLR(opt, schedule)
for step in range(TOTAL):
    t = torch.randint(0, 12, (32, 10))
    loss = F.cross_entropy(model(t).reshape(-1, 12), t.flip(1).reshape(-1))
    opt.zero_grad()
    loss.backward()
    opt.step()
    sched.step()
    if step % 40 == 0 or step == TOTAL - 1:
        print(f'step {step} lr {sched.get_last_lr()[0]:.5f} loss {loss.item():.3f}')
