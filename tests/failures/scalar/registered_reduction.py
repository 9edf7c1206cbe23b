# code: BS212
# variable: value
# cause: value = criterion(model(x).squeeze(1), y)
# fix: reduction="mean" at
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

LOSSES = {}


def loss(name, **defaults):
    def register(function):
        LOSSES[name] = partial(function, **defaults)
        return function

    return register


@loss("bce", reduction="none")
def bce(scores, target, reduction):
    return F.binary_cross_entropy_with_logits(scores, target, reduction=reduction)


@loss("hinge", margin=1.0)
def hinge(scores, target, margin):
    return F.relu(margin - (2 * target - 1) * scores).mean()


def train(model, x, y, name="bce"):
    criterion = LOSSES[name]
    value = criterion(model(x).squeeze(1), y)
    value.backward()
    return value.item()


train(nn.Linear(4, 1), torch.randn(8, 4), torch.ones(8))
