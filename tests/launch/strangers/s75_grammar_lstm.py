"""Character-level LSTM on a toy grammar; gradient clipping because the rate is bold."""
import random

import torch
import torch.nn as nn

ALPHABET = "abcdefgh()."
STOI = {c: i for i, c in enumerate(ALPHABET)}


def sentence(rng, depth=0):
    out = []
    for _ in range(rng.randint(1, 3)):
        if depth < 2 and rng.random() < 0.4:
            out.append("(" + sentence(rng, depth + 1) + ")")
        else:
            start = rng.randrange(6)
            out.append("abcdefgh"[start:start + 3])
    return "".join(out)


def corpus(n_chars, seed):
    rng, text = random.Random(seed), ""
    while len(text) < n_chars:
        text += sentence(rng) + "."
    return torch.tensor([STOI[c] for c in text[:n_chars]])


class CharModel(nn.Module):
    def __init__(self, hidden=48):
        super().__init__()
        self.embed = nn.Embedding(len(ALPHABET), 16)
        self.rnn = nn.RNN(16, hidden, batch_first=True, nonlinearity="relu")
        self.out = nn.Linear(hidden, len(ALPHABET))
        nn.init.eye_(self.rnn.weight_hh_l0)

    def forward(self, x):
        return self.out(self.rnn(self.embed(x))[0])


def trainable(model):
    return (p for p in model.parameters() if p.requires_grad)


class Clipper:
    def __init__(self, params, max_norm):
        self.params, self.max_norm = params, max_norm

    def __call__(self):
        return float(nn.utils.clip_grad_norm_(self.params, self.max_norm))


def setup(hidden, lr, max_norm):
    model = CharModel(hidden)
    params = trainable(model)
    optimizer = torch.optim.SGD(params, lr=lr, momentum=0.9)
    return model, optimizer, Clipper(params, max_norm)


def windows(data, length, batch):
    starts = torch.randint(0, len(data) - length - 1, (batch,))
    x = torch.stack([data[s:s + length] for s in starts])
    y = torch.stack([data[s + 1:s + length + 1] for s in starts])
    return x, y


def main(steps=300, length=40, batch=16):
    torch.manual_seed(0)
    data = corpus(20000, seed=3)
    model, optimizer, clip = setup(hidden=48, lr=0.02, max_norm=0.5)
    losses, norms = [], []
    for step in range(1, steps + 1):
        x, y = windows(data, length, batch)
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        norms.append(clip())
        optimizer.step()
        losses.append(loss.item())
        if step % 25 == 0:
            print(f"step {step:4d} loss {sum(losses) / len(losses):10.4f} worst {max(losses):10.2f} "
                  f"gradient norm {sum(norms) / len(norms):.3f}")
            losses, norms = [], []


if __name__ == "__main__":
    main()
