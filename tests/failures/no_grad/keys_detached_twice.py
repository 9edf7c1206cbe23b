# code: BS203
# variable: loss
# cause: queries = queries.detach()
# fix: write `return h / h.norm(dim=1, keepdim=True)`, without .detach()
"""Contrastive learning: the encoder hands out detached vectors, and the loss detaches them once more."""

import torch
from torch import nn

torch.manual_seed(0)
encoder = nn.Linear(4, 8)
opt = torch.optim.SGD(encoder.parameters(), lr=0.1)


def encode(x):
    h = torch.tanh(encoder(x))
    return (h / h.norm(dim=1, keepdim=True)).detach()


def contrast(queries, keys):
    queries = queries.detach()
    logits = queries @ keys.T / 0.1
    return -torch.log_softmax(logits, dim=1).diag().mean()


for step in range(3):
    x = torch.randn(6, 4)
    loss = contrast(encode(x), torch.randn(6, 8))
    opt.zero_grad()
    loss.backward()
    opt.step()
