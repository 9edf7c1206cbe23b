# code: BS204
# variable: embedded
# cause: (gradient,) = torch.autograd.grad(score(tokens), embedded)
# fix: embedded
import torch
from torch import nn

embed, classifier = nn.Embedding(20, 6), nn.Linear(6, 2)


def score(tokens):
    return classifier(embed(tokens).mean(1))[:, 1].sum()


tokens = torch.randint(0, 20, (2, 5))
embedded = embed(tokens)
(gradient,) = torch.autograd.grad(score(tokens), embedded)
