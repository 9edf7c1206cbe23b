"""Sequence classification with gradient accumulation, clipping and a linear warm-up/decay."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def bracket_data(n, seed, length=16):
    """Is there any point where more brackets were closed than opened, counting from the left?"""
    g = torch.Generator().manual_seed(seed)
    tokens = (torch.rand(n, length, generator=g) < 0.45).long()
    depth = (1 - 2 * tokens).cumsum(1)
    return TensorDataset(tokens, (depth.min(1).values < -1).float())


class GRUClassifier(nn.Module):
    def __init__(self, dim=8, hidden=32):
        super().__init__()
        self.emb = nn.Embedding(2, dim)
        self.gru = nn.GRU(dim, hidden, batch_first=True)
        self.drop = nn.Dropout(0.1)
        self.out = nn.Linear(hidden, 1)

    def forward(self, tokens):
        _, h = self.gru(self.emb(tokens))
        return self.out(self.drop(h[-1])).squeeze(-1)


def linear_schedule(optimizer, warmup, total):
    def factor(step):
        if step < warmup:
            return (step + 1) / warmup
        return max(0.0, (total - step) / (total - warmup))
    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


class Trainer:
    def __init__(self, model, loader, accumulate=4, epochs=6, lr=1e-2, clip=1.0):
        self.model, self.loader = model, loader
        self.accumulate, self.epochs, self.clip = accumulate, epochs, clip
        per_epoch = -(-len(loader) // accumulate)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=1e-2)
        self.scheduler = linear_schedule(self.optimizer, 8, per_epoch * epochs)

    def fit(self, test):
        n = len(self.loader)
        for epoch in range(self.epochs):
            self.model.train()
            self.optimizer.zero_grad()
            total = 0.0
            for i, (tokens, label) in enumerate(self.loader):
                window = min(self.accumulate, n - i // self.accumulate * self.accumulate)
                loss = F.binary_cross_entropy_with_logits(self.model(tokens), label)
                (loss / window).backward()
                total += loss.item()
                if (i + 1) % self.accumulate == 0 or i + 1 == n:
                    nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
                    self.optimizer.step()
                    self.scheduler.step()
                    self.optimizer.zero_grad()
            print(f"epoch {epoch} loss {total / n:.3f} lr {self.scheduler.get_last_lr()[0]:.2e} "
                  f"test acc {self.accuracy(test):.3f}")

    @torch.no_grad()
    def accuracy(self, data):
        self.model.eval()
        tokens, label = data.tensors
        return ((self.model(tokens) > 0).float() == label).float().mean().item()


if __name__ == "__main__":
    torch.manual_seed(0)
    loader = DataLoader(bracket_data(1330, 0), batch_size=19, shuffle=True)
    Trainer(GRUClassifier(), loader).fit(bracket_data(600, 1))
