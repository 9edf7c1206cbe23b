"""Tagger with per-sentence importance weights (noisy annotators get less weight)."""
from dataclasses import dataclass, field

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class DataConfig:
    sentences: int = 960
    length: int = 16
    vocab: int = 60
    tags: int = 5
    noisy_share: float = 0.5


@dataclass
class TrainConfig:
    batch: int = 16
    epochs: int = 12
    lr: float = 5e-3
    data: DataConfig = field(default_factory=DataConfig)


class Corpus:
    """Every word has one gold tag. A careless annotator shifts all the tags of his sentences by one."""

    def __init__(self, cfg, seed):
        g = torch.Generator().manual_seed(seed)
        lexicon = torch.arange(cfg.vocab) % cfg.tags
        self.words = torch.randint(0, cfg.vocab, (cfg.sentences, cfg.length), generator=g)
        self.gold = lexicon[self.words]
        self.careless = torch.rand(cfg.sentences, generator=g) < cfg.noisy_share
        shifted = (self.gold + 1) % cfg.tags
        self.tags = torch.where(self.careless[:, None], shifted, self.gold)
        # trust that the agreement study gave to each annotator
        self.trust = torch.where(self.careless, 0.02, 1.0)

    def batches(self, size, generator):
        for idx in torch.randperm(len(self.words), generator=generator).split(size):
            yield self.words[idx], self.tags[idx], self.trust[idx]


class Tagger(nn.Module):
    def __init__(self, cfg, dim=32):
        super().__init__()
        self.embed = nn.Embedding(cfg.vocab, dim)
        self.lstm = nn.LSTM(dim, dim, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * dim, cfg.tags)

    def forward(self, words):
        return self.out(self.lstm(self.embed(words))[0])


def weighted_loss(logits, tags, trust):
    per_token = F.cross_entropy(logits.transpose(1, 2), tags, reduction="none")
    return (per_token * trust).mean()


def train(cfg):
    corpus, held_out = Corpus(cfg.data, 0), Corpus(cfg.data, 1)
    model = Tagger(cfg.data)
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    g = torch.Generator().manual_seed(5)
    for epoch in range(cfg.epochs):
        model.train()
        running, steps = 0.0, 0
        for words, tags, trust in corpus.batches(cfg.batch, g):
            loss = weighted_loss(model(words), tags, trust)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            running, steps = running + loss.item(), steps + 1
        model.eval()
        with torch.no_grad():
            pred = model(held_out.words).argmax(-1)
        gold = (pred == held_out.gold).float().mean().item()
        careless = (pred == (held_out.gold + 1) % cfg.data.tags).float().mean().item()
        print(f"epoch {epoch:2d} loss {running / steps:.4f} gold tags {gold:.3f} careless tags {careless:.3f}")
    return model


if __name__ == "__main__":
    torch.manual_seed(0)
    train(TrainConfig())
