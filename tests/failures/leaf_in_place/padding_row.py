# code: BS205
# variable: embedding.weight
# cause: embedding.weight[0] = 0.0
# fix: no_grad
import torch
from torch import nn


def make_embedding(vocabulary, width):
    embedding = nn.Embedding(len(vocabulary), width)
    embedding.weight[0] = 0.0
    return embedding


table = make_embedding(["<pad>", "a", "b"], 4)
