"""Rationale extraction: a selector picks tokens, a predictor reads only those."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

VOCAB, SEQ_LEN, N_CLASSES = 40, 14, 6
MARKER = 39


def make_corpus(n, seed):
    g = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, 30, (n, SEQ_LEN), generator=g)
    spot = torch.randint(0, SEQ_LEN - 1, (n,), generator=g)
    label = torch.randint(0, N_CLASSES, (n,), generator=g)
    rows = torch.arange(n)
    tokens[rows, spot] = MARKER
    tokens[rows, spot + 1] = label * 5 + torch.randint(0, 5, (n,), generator=g)
    return TensorDataset(tokens, label)


class Selector(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.emb = nn.Embedding(VOCAB, dim)
        self.conv = nn.Conv1d(dim, dim, 3, padding=1)
        self.score = nn.Linear(dim, 1)

    def forward(self, tokens):
        h = self.emb(tokens).transpose(1, 2)
        h = F.relu(self.conv(h)).transpose(1, 2)
        return torch.sigmoid(self.score(h)).squeeze(-1)


class RationaleNet(nn.Module):
    def __init__(self, dim=32, hard_from=1):
        super().__init__()
        self.selector = Selector(dim)
        self.emb = nn.Embedding(VOCAB, dim)
        self.head = nn.Sequential(nn.Linear(dim, 64), nn.ReLU(), nn.Linear(64, N_CLASSES))
        self.hard_from = hard_from
        self.epoch = 0

    def select(self, tokens):
        probs = self.selector(tokens)
        if self.epoch >= self.hard_from:
            return (probs > 0.5).float()
        return probs

    def forward(self, tokens):
        mask = self.select(tokens)
        x = (self.emb(tokens) * mask.unsqueeze(-1)).sum(1) / (mask.sum(1, keepdim=True) + 1.0)
        return self.head(x), mask


class Trainer:
    def __init__(self, model, lr=1.5e-3, sparsity=0.03):
        self.model = model
        self.sparsity = sparsity
        self.opt = torch.optim.Adam(model.parameters(), lr=lr)

    def fit(self, train, test, epochs):
        for epoch in range(epochs):
            self.model.epoch = epoch
            losses = []
            for tokens, label in train:
                logits, mask = self.model(tokens)
                loss = F.cross_entropy(logits, label) + self.sparsity * mask.mean()
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                losses.append(loss.item())
            acc, kept = self.evaluate(test)
            print(f"epoch {epoch}: loss {sum(losses) / len(losses):.3f}  "
                  f"test acc {acc:.3f}  kept tokens {kept:.2f}")

    @torch.no_grad()
    def evaluate(self, loader):
        right = total = kept = 0
        for tokens, label in loader:
            logits, mask = self.model(tokens)
            right += (logits.argmax(1) == label).sum().item()
            kept += mask.sum().item()
            total += len(label)
        return right / total, kept / total


if __name__ == "__main__":
    torch.manual_seed(0)
    train = DataLoader(make_corpus(1500, 1), batch_size=50, shuffle=True)
    test = DataLoader(make_corpus(500, 2), batch_size=250)
    Trainer(RationaleNet()).fit(train, test, epochs=8)
