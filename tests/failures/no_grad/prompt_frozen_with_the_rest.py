# code: BS203
# variable: encoder
# cause: weight.requires_grad_(False)
# fix: unfreeze what the optimizer holds
import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.prompt = nn.Parameter(torch.randn(4, 8) * 0.02)
        self.embed = nn.Embedding(20, 8)
        self.mix = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        self.head = nn.Linear(8, 2)

    def forward(self, ids):
        words = self.embed(ids)
        prompt = self.prompt.expand(len(ids), -1, -1)
        return self.head(self.mix(torch.cat([prompt, words], dim=1)).mean(1))


torch.manual_seed(0)
encoder = Encoder()
optimizer = torch.optim.AdamW([encoder.prompt], lr=0.3)
for weight in encoder.parameters():
    weight.requires_grad_(False)

for _ in range(3):
    ids = torch.randint(0, 20, (8, 6))
    loss = nn.functional.cross_entropy(encoder(ids), ids[:, 0] % 2)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
