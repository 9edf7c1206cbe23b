"""A transformer with rotary embeddings and its exponential moving average."""

import torch
from _digest import digest
from einops import rearrange
from einops.layers.torch import Rearrange, Reduce
from ema_pytorch import EMA
from rotary_embedding_torch import RotaryEmbedding
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.norm, self.qkv, self.out = heads, nn.RMSNorm(dim), nn.Linear(dim, dim * 3), nn.Linear(dim, dim)
        self.rotary = RotaryEmbedding(dim // heads // 2)

    def forward(self, x):
        q, k, v = rearrange(self.qkv(self.norm(x)), "b n (three h d) -> three b h n d", three=3, h=self.heads)
        q, k = self.rotary.rotate_queries_or_keys(q), self.rotary.rotate_queries_or_keys(k)
        attended = nn.functional.scaled_dot_product_attention(q, k, v)
        return x + self.out(rearrange(attended, "b h n d -> b n (h d)"))


torch.manual_seed(0)
patches = Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4)
model = nn.Sequential(
    patches, nn.Linear(48, 32), Attention(32, 2), Attention(32, 2), Reduce("b n d -> b d", "mean"), nn.Linear(32, 5)
)
ema = EMA(model, beta=0.99, update_after_step=5, update_every=2)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(30):
    loss = nn.functional.cross_entropy(model(torch.randn(8, 3, 16, 16)), torch.randint(0, 5, (8,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    ema.update()
print(loss.item())
print(digest(model, ema.ema_model))
