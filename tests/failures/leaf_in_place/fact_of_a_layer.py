# code: BS205
# variable: model.layers.1.output.dense.weight
# cause: model.layers[layer].output.dense.weight[:, slot] -= old * strength
# fix: Put lines 30 and 31 inside `with torch.no_grad():`
"""Edit a fact that a model has learned: one slot of a layer gives another word."""

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.output = nn.Module()
        self.output.dense = nn.Linear(width, width)

    def forward(self, x):
        return x + self.output.dense(torch.relu(x))


class Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20, 8)
        self.layers = nn.ModuleList(Layer() for _ in range(2))


def edit(model, slots, old, new):
    for layer, slot, strength in slots:
        model.layers[layer].output.dense.weight[:, slot] -= old * strength
        model.layers[layer].output.dense.weight[:, slot] += new * strength


model = Words()
words = model.embedding.weight.detach()
edit(model, [(1, 3, 1.0), (1, 5, 2.0)], words[2], words[7])
