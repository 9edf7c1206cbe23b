# code: BS214
# variable: tagger.rotary.kept[5]
# cause: @torch.inference_mode()
# fix: Use torch.no_grad() instead
import torch
from torch import nn


class Rotary(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.kept = {}

    def angles(self, length):
        if length in self.kept:
            return self.kept[length]
        turns = torch.arange(length).float().unsqueeze(1) / 10 ** (torch.arange(self.width) / self.width)
        self.kept[length] = torch.cos(turns)
        return self.kept[length]


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.rotary, self.tags = nn.Embedding(20, 6), Rotary(6), nn.Linear(6, 3)

    def forward(self, ids):
        return self.tags(self.words(ids) * self.rotary.angles(ids.shape[1]))


@torch.inference_mode()
def accuracy(tagger, batches):
    return [(tagger(ids).argmax(-1) == tags).float().mean().item() for ids, tags in batches]


tagger = Tagger()
optimizer = torch.optim.Adam(tagger.parameters())
batches = [(torch.randint(0, 20, (4, 5)), torch.randint(0, 3, (4, 5))) for _ in range(2)]
for epoch in range(2):
    accuracy(tagger, batches)
    for ids, tags in batches:
        loss = nn.functional.cross_entropy(tagger(ids).flatten(0, 1), tags.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
