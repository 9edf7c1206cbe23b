# code: BS202
# variable: votes
# cause: target.scatter_add_(0, index, source)
# fix: votes.clone()
import torch
from torch import nn


def accumulate(target, index, source):
    target.scatter_add_(0, index, source)


score = nn.Linear(3, 1)
items, groups = torch.randn(6, 3), torch.tensor([0, 0, 1, 1, 2, 2])
s = score(items).squeeze(1)
votes = torch.exp(s)[:3]
normaliser = votes.log().sum()
entropy = (votes * votes).sum()
accumulate(votes, groups, s)
loss = entropy + votes.sum() + normaliser
loss.backward()
