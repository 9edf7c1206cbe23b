import argparse
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv = nn.Linear(d, 3 * d)
        self.proj = nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).chunk(3, dim=-1)
        q, k, v = (z.view(b, t, self.heads, -1).transpose(1, 2) for z in (q, k, v))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.ln2(x))


class MiniGPT(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.tok = nn.Embedding(cfg.vocab, cfg.d)
        self.pos = nn.Embedding(cfg.ctx, cfg.d)
        self.blocks = [Block(cfg.d, cfg.heads) for _ in range(cfg.layers)]
        self.ln = nn.LayerNorm(cfg.d)
        self.lm_head = nn.Linear(cfg.d, cfg.vocab, bias=False)

    def forward(self, idx):
        x = self.tok(idx) + self.pos(torch.arange(idx.size(1)))
        for blk in self.blocks:
            x = blk(x)
        return self.lm_head(self.ln(x))


def get_batch(cfg):
    # second half of each row repeats the first half
    half = torch.randint(0, cfg.vocab, (cfg.batch, cfg.ctx // 2))
    seq = torch.cat([half, half, half[:, :1]], 1)
    return seq[:, :-1], seq[:, 1:]


if __name__ == '__main__':
    p = argparse.ArgumentParser()
    p.add_argument('--d', type=int, default=32)
    p.add_argument('--heads', type=int, default=4)
    p.add_argument('--layers', type=int, default=2)
    p.add_argument('--vocab', type=int, default=16)
    p.add_argument('--ctx', type=int, default=16)
    p.add_argument('--batch', type=int, default=32)
    p.add_argument('--steps', type=int, default=250)
    p.add_argument('--lr', type=float, default=3e-3)
    cfg = p.parse_args()
    torch.manual_seed(0)
    model = MiniGPT(cfg)
    print('parameters:', sum(q.numel() for q in model.parameters()))
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr)
    for step in range(1, cfg.steps + 1):
        x, y = get_batch(cfg)
        logits = model(x)
        loss = F.cross_entropy(logits[:, cfg.ctx // 2:].reshape(-1, cfg.vocab), y[:, cfg.ctx // 2:].reshape(-1))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        if step % 50 == 0:
            print(f'step {step} loss {loss.item():.3f} (chance {math.log(cfg.vocab):.3f})')
