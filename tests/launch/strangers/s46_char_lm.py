"""Character language model with gradient accumulation."""
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

WORDS = ("the cat sat on mat and dog ran to red house with big blue ball while old man "
         "sang a song about rain in spring").split()


def make_text(n_words, seed):
    rng = random.Random(seed)
    return " ".join(rng.choice(WORDS) for _ in range(n_words))


class CharData:
    def __init__(self, text, seq_len):
        self.vocab = sorted(set("abcdefghijklmnopqrstuvwxyz "))
        index = {c: i for i, c in enumerate(self.vocab)}
        self.ids = torch.tensor([index[c] for c in text])
        self.seq_len = seq_len

    def batches(self, size, generator=None):
        starts = torch.randperm(len(self.ids) - self.seq_len - 1, generator=generator)
        for chunk in starts[:1152].split(size):
            x = torch.stack([self.ids[s:s + self.seq_len] for s in chunk])
            y = torch.stack([self.ids[s + 1:s + self.seq_len + 1] for s in chunk])
            yield x, y


class CharRNN(nn.Module):
    def __init__(self, vocab, dim=32, hidden=64):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, hidden, batch_first=True)
        self.out = nn.Linear(hidden, vocab)

    def forward(self, x):
        h, _ = self.rnn(self.emb(x))
        return self.out(h)


class LMTrainer:
    def __init__(self, model, micro_batch=8, accumulate=8, lr=0.5, clip=1.0):
        self.model = model
        self.micro_batch = micro_batch
        self.accumulate = accumulate
        self.clip = clip
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)

    def loss_on(self, x, y):
        logits = self.model(x)
        return F.cross_entropy(logits.reshape(-1, logits.size(-1)), y.reshape(-1))

    def train_epoch(self, data):
        self.model.train()
        total, count = 0.0, 0
        for i, (x, y) in enumerate(data.batches(self.micro_batch)):
            self.optimizer.zero_grad()
            loss = self.loss_on(x, y)
            (loss / self.accumulate).backward()
            if (i + 1) % self.accumulate == 0:
                nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
                self.optimizer.step()
            total += loss.item()
            count += 1
        return total / count

    @torch.no_grad()
    def validate(self, data):
        self.model.eval()
        losses = [self.loss_on(x, y).item() for x, y in data.batches(200)]
        return sum(losses) / len(losses)


def main():
    torch.manual_seed(0)
    train, valid = CharData(make_text(900, 0), 24), CharData(make_text(400, 1), 24)
    model = CharRNN(len(train.vocab))
    trainer = LMTrainer(model)
    for epoch in range(4):
        loss = trainer.train_epoch(train)
        print(f"epoch {epoch} train nll {loss:.3f} valid nll {trainer.validate(valid):.3f}")


if __name__ == "__main__":
    main()
