# code: BS200
# variable: layers[0].weight
# cause: layers[0].weight = vectors["tokens"]
# fix: with torch.no_grad(): layers[1].weight.copy_(vectors["places"])
import torch
from torch import nn

torch.manual_seed(0)
vectors = {"tokens": torch.randn(20, 4), "places": torch.randn(6, 4)}
layers = nn.ModuleList([nn.Embedding(20, 4), nn.Embedding(6, 4), nn.Linear(4, 20)])
layers[0].weight = vectors["tokens"]
layers[1].weight = vectors["places"]
layers[2].weight = layers[0].weight

tokens = torch.randint(20, (8, 6))
loss = layers[2](layers[0](tokens) + layers[1](torch.arange(6))).flatten(0, 1)
nn.functional.cross_entropy(loss, tokens.flatten()).backward()
