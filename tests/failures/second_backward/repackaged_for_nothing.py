# code: BS201
# variable: hidden
# cause: repackage(hidden)
# fix: write `hidden = repackage(hidden)`
import torch
from torch import nn


def repackage(h):
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage(each) for each in h)


class WordModel(nn.Module):
    def __init__(self, words, width):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.rnn = nn.GRU(width, width)
        self.out = nn.Linear(width, words)

    def forward(self, batch, hidden):
        output, hidden = self.rnn(self.words(batch), hidden)
        return self.out(output), hidden


def train(model, text, hidden):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for start in range(0, len(text) - 6, 5):
        batch, target = text[start : start + 5], text[start + 1 : start + 6]
        optimizer.zero_grad()
        repackage(hidden)
        scores, hidden = model(batch, hidden)
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), target.flatten())
        loss.backward()
        optimizer.step()


train(WordModel(20, 8), torch.randint(0, 20, (30, 4)), torch.zeros(1, 4, 8))
