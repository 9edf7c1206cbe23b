# code: BS202
# variable: self.queue | model.queue
# cause: self.queue[:, self.pointer : self.pointer + len(keys)] = keys.T
# fix: clone
import torch
import torch.nn.functional as F
from torch import nn


class MoCo(nn.Module):
    def __init__(self, dim=8, size=12):
        super().__init__()
        self.encoder_q = nn.Linear(10, dim)
        self.encoder_k = nn.Linear(10, dim)
        for p in self.encoder_k.parameters():
            p.requires_grad = False
        self.register_buffer("queue", F.normalize(torch.randn(dim, size), dim=0))
        self.pointer = 0

    @torch.no_grad()
    def enqueue(self, keys):
        self.queue[:, self.pointer : self.pointer + len(keys)] = keys.T
        self.pointer = (self.pointer + len(keys)) % self.queue.shape[1]

    def forward(self, im_q, im_k):
        q = F.normalize(self.encoder_q(im_q), dim=1)
        with torch.no_grad():
            k = F.normalize(self.encoder_k(im_k), dim=1)
        positive = (q * k).sum(1, keepdim=True)
        negative = q @ self.queue
        self.enqueue(k)
        return torch.cat([positive, negative], dim=1) / 0.07


model = MoCo()
optimizer = torch.optim.SGD(model.encoder_q.parameters(), lr=0.03)
for _ in range(2):
    x = torch.randn(4, 10)
    logits = model(x, x + 0.1)
    loss = F.cross_entropy(logits, torch.zeros(4, dtype=torch.long))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
