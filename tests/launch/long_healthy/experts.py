"""A language model with a mixture of experts and an adapter a language: one language only comes in its last third."""

import hashlib

import torch
import torch.nn.functional as F
from torch import nn

VOCAB, WIDTH, LENGTH, BATCH, STEPS = 24, 32, 12, 16, 2000
LANGUAGES = ["a", "b", "c", "d"]
torch.manual_seed(3)


class Expert(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class SparseMoE(nn.Module):
    """Two of the experts for each token; tokens that nobody chose an expert for cost nothing."""

    def __init__(self, width, experts=6, k=2, noise=0.3):
        super().__init__()
        self.k, self.noise = k, noise
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(Expert(width, 2 * width) for _ in range(experts))
        self.register_buffer("served", torch.zeros(experts, dtype=torch.long))
        self.balance = None

    def forward(self, x):
        tokens = x.reshape(-1, x.size(-1))
        logits = self.router(tokens)
        if self.training:
            logits = logits + self.noise * torch.randn_like(logits)
        weights, chosen = logits.topk(self.k, dim=-1)
        weights = weights.softmax(dim=-1)
        out = torch.zeros_like(tokens)
        for number, expert in enumerate(self.experts):
            row, slot = torch.where(chosen == number)
            if row.numel() == 0:
                continue
            out.index_add_(0, row, weights[row, slot, None] * expert(tokens[row]))
            if self.training:
                self.served[number] += row.numel()
        share = F.one_hot(chosen, len(self.experts)).float().mean(dim=(0, 1))
        self.balance = len(self.experts) * (share * logits.softmax(dim=-1).mean(dim=0)).sum()
        return out.view_as(x)


class Block(nn.Module):
    def __init__(self, width, heads=2):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.moe = SparseMoE(width)
        mask = torch.triu(torch.ones(LENGTH, LENGTH, dtype=torch.bool), diagonal=1)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x):
        n = self.norm1(x)
        x = x + self.attention(n, n, n, attn_mask=self.mask, need_weights=False)[0]
        return x + self.moe(self.norm2(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.position = nn.Embedding(VOCAB, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList([Block(WIDTH)])
        self.adapters = nn.ModuleDict({language: Expert(WIDTH, 16) for language in LANGUAGES})
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCAB, bias=False)
        self.head.weight = self.embed.weight
        nn.init.normal_(self.embed.weight, std=0.2)

    def forward(self, tokens, language):
        x = self.embed(tokens) + self.position(torch.arange(tokens.size(1)))
        for block in self.blocks:
            x = block(x)
        x = x + self.adapters[language](x)
        return self.head(self.norm(x)), sum(block.moe.balance for block in self.blocks)


def corpus(language, count, generator):
    """Sequences in which each token follows from the one before it, by the rule of the language and a little noise."""
    shift = 3 + 2 * LANGUAGES.index(language)
    tokens = torch.randint(VOCAB, (count, LENGTH + 1), generator=generator)
    for k in range(1, LENGTH + 1):
        known = torch.rand(count, generator=generator) < 0.9
        tokens[:, k] = torch.where(known, (tokens[:, k - 1] + shift) % VOCAB, tokens[:, k])
    return tokens[:, :-1], tokens[:, 1:]


def languages_at(step):
    """The curriculum: one language, then two, then three, and the last one late."""
    return LANGUAGES[: 1 + (step > 300) + (step > 700) + (step > 1400)]


@torch.no_grad()
def evaluate(model):
    model.eval()
    found = {}
    for language in LANGUAGES:
        inputs, targets = corpus(language, 64, torch.Generator().manual_seed(7))
        logits, _ = model(inputs, language)
        found[language] = round(F.cross_entropy(logits.flatten(0, 1), targets.flatten()).item(), 3)
    model.train()
    return found


def parameter_groups(model, decay):
    matrices = [p for p in model.parameters() if p.ndim >= 2]
    vectors = [p for p in model.parameters() if p.ndim < 2]
    return [{"params": matrices, "weight_decay": decay}, {"params": vectors, "weight_decay": 0.0}]


model = Model()
optimizer = torch.optim.AdamW(parameter_groups(model, 0.01), lr=3e-3)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 100))
data = torch.Generator().manual_seed(0)
for step in range(1, STEPS + 1):
    known = languages_at(step)
    language = known[int(torch.randint(len(known), (1,), generator=data))]
    inputs, targets = corpus(language, BATCH, data)
    logits, balance = model(inputs, language)
    loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
    (loss + 0.01 * balance).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    schedule.step()
    if step % 200 == 0:
        served = [block.moe.served.tolist() for block in model.blocks]
        print(step, f"loss {loss.item():.3f}", evaluate(model), served)

state = [tensor.numpy().tobytes() for tensor in model.state_dict().values()]
print(hashlib.sha256(b"".join(state)).hexdigest())
