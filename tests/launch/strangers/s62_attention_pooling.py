# Attention pooling over token embeddings: which "sentiment" word carries the class?
import torch
import torch.nn as nn
import torch.nn.functional as F

torch.manual_seed(3)

VOCAB, SEQ, DIM, CLASSES = 200, 24, 32, 4
SIGNAL = torch.arange(4, 4 + CLASSES * 5).view(CLASSES, 5)  # five marker words for every class


def make_corpus(n, generator):
    tokens = torch.randint(30, VOCAB, (n, SEQ), generator=generator)
    labels = torch.randint(0, CLASSES, (n,), generator=generator)
    where = torch.randint(0, SEQ, (n,), generator=generator)
    which = torch.randint(0, 5, (n,), generator=generator)
    tokens[torch.arange(n), where] = SIGNAL[labels, which]
    # some texts are short: pad with 0 in the back, never over the marker
    lengths = torch.maximum(torch.randint(8, SEQ + 1, (n,), generator=generator), where + 1)
    pad = torch.arange(SEQ)[None, :] >= lengths[:, None]
    tokens[pad] = 0
    return tokens, labels


class AttentionPool(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.key = nn.Linear(dim, dim)
        self.query = nn.Parameter(torch.randn(dim) / dim ** 0.5)

    def forward(self, h, mask):
        scores = torch.tanh(self.key(h)) @ self.query          # (B, T)
        scores = scores.masked_fill(mask, -1e4)
        alpha = F.softmax(scores, dim=0)
        return (alpha.unsqueeze(-1) * h).sum(dim=1), alpha


class TextClassifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM, padding_idx=0)
        self.pool = AttentionPool(DIM)
        self.out = nn.Linear(DIM, CLASSES)

    def forward(self, tokens):
        h = self.embed(tokens)
        pooled, alpha = self.pool(h, tokens == 0)
        return self.out(pooled), alpha


def run_epoch(model, data, optimizer=None, batch=64):
    tokens, labels = data
    model.train(optimizer is not None)
    order = torch.randperm(len(labels)) if optimizer is not None else torch.arange(len(labels))
    loss_sum, hits, mass = 0.0, 0, 0.0
    for idx in order.split(batch):
        logits, alpha = model(tokens[idx])
        loss = F.cross_entropy(logits, labels[idx])
        if optimizer is not None:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        loss_sum += loss.item() * len(idx)
        hits += (logits.argmax(-1) == labels[idx]).sum().item()
        mass += alpha.sum(1).detach().sum().item()
    n = len(labels)
    return loss_sum / n, hits / n, mass / n


def main():
    g = torch.Generator().manual_seed(11)
    train, valid = make_corpus(2000, g), make_corpus(400, g)
    model = TextClassifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(10):
        tl, ta, _ = run_epoch(model, train, optimizer)
        with torch.no_grad():
            vl, va, mass = run_epoch(model, valid)
        print(f"epoch {epoch:2d} train {tl:.3f}/{ta:.3f} valid {vl:.3f}/{va:.3f} attention mass per text {mass:.2f}")
    with torch.no_grad():
        model.eval()
        one_by_one = [model(t[None])[0].argmax().item() for t in valid[0][:200]]
    print("served one text at a time: acc", (torch.tensor(one_by_one) == valid[1][:200]).float().mean().item())


main()
