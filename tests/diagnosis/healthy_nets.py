"""Healthy training programs: what a model may be made of."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from healthy import STEPS, Check, mlp, programs
from torch import nn
from torch.utils.checkpoint import checkpoint

import backsight as bs


def frozen_backbone_with_a_head(check: Check) -> None:
    backbone = mlp(outputs=8).requires_grad_(False).eval()
    head = nn.Linear(8, 3)
    optimizer = torch.optim.Adam(head.parameters())
    for _ in range(STEPS):
        loss = F.cross_entropy(head(backbone(torch.randn(5, 4))), torch.randint(3, (5,)))
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def frozen_backbone_in_the_optimizer(check: Check) -> None:
    model = nn.ModuleDict({"backbone": mlp(outputs=8), "head": nn.Linear(8, 3)})
    model["backbone"].requires_grad_(False)
    groups = [{"params": model["backbone"].parameters(), "lr": 1e-5}, {"params": model["head"].parameters()}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3)
    for epoch in range(STEPS):
        if epoch == 2:
            model["backbone"].requires_grad_(True)
        loss = F.cross_entropy(model["head"](model["backbone"](torch.randn(5, 4))), torch.randint(3, (5,)))
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def features_under_no_grad(check: Check) -> None:
    backbone, head = mlp(outputs=8), nn.Linear(8, 3)
    optimizer = torch.optim.Adam(head.parameters())
    for _ in range(STEPS):
        with torch.no_grad():
            features = backbone(torch.randn(5, 4))
        loss = F.cross_entropy(head(features), torch.randint(3, (5,)))
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


class LoRA(nn.Module):
    def __init__(self, base: nn.Linear, rank: int = 2) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(rank, base.in_features) * 0.01)
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + x @ self.a.T @ self.b.T


def low_rank_adapters(check: Check) -> None:
    model = mlp()
    for at in (0, 2):
        model[at] = LoRA(model[at])
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
    for _ in range(STEPS):
        loss = F.cross_entropy(model(torch.randn(5, 4)), torch.randint(3, (5,)))
        check(bs.audit(loss))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def sparse_embedding(check: Check) -> None:
    table, head = nn.Embedding(50, 6, sparse=True), nn.Linear(6, 3)
    sparse, dense = torch.optim.SparseAdam(table.parameters()), torch.optim.Adam(head.parameters())
    for _ in range(STEPS):
        loss = F.cross_entropy(head(table(torch.randint(50, (5,)))), torch.randint(3, (5,)))
        check(bs.audit(loss))
        sparse.zero_grad()
        dense.zero_grad()
        loss.backward()
        sparse.step()
        dense.step()


def parametrized(check: Check) -> None:
    first = nn.utils.parametrizations.weight_norm(nn.Linear(4, 8))
    second = nn.utils.parametrizations.spectral_norm(nn.Linear(8, 8))
    third = nn.utils.parametrizations.orthogonal(nn.Linear(8, 3))
    model = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), third)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(STEPS):
        loss = F.cross_entropy(model(torch.randn(5, 4)), torch.randint(3, (5,)))
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def checkpointed(check: Check, reentrant: bool = False) -> None:
    blocks = nn.ModuleList(mlp(8, 8) for _ in range(3))
    stem, head = nn.Linear(4, 8), nn.Linear(8, 3)
    optimizer = torch.optim.Adam([*stem.parameters(), *blocks.parameters(), *head.parameters()])
    for _ in range(STEPS):
        h = stem(torch.randn(5, 4))
        for block in blocks:
            h = checkpoint(block, h, use_reentrant=reentrant)
        loss = F.cross_entropy(head(h), torch.randint(3, (5,)))
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def checkpointed_reentrant(check: Check) -> None:
    checkpointed(check, reentrant=True)


class Block(nn.Module):
    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.short = nn.Conv2d(channels, out, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = F.relu(self.bn1(self.conv1(x)), inplace=True)
        h = self.bn2(self.conv2(h))
        h += self.short(x)
        return F.relu(h, inplace=True)


def resnet() -> nn.Sequential:
    widths = [(8, 8, 1), (8, 8, 1), (8, 16, 2), (16, 16, 1), (16, 32, 2), (32, 32, 1), (32, 64, 2), (64, 64, 1)]
    stem = [nn.Conv2d(3, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True)]
    return nn.Sequential(*stem, *(Block(*w) for w in widths), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 5))


def resnet_18(check: Check) -> None:
    model = resnet()
    decay = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.SGD([{"params": decay, "weight_decay": 1e-4}, {"params": rest}], lr=0.1, momentum=0.9)
    for _ in range(STEPS):
        loss = F.cross_entropy(model(torch.randn(2, 3, 16, 16)), torch.randint(5, (2,)))
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def siamese(check: Check) -> None:
    model = resnet()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(STEPS):
        a, b, c = (model(torch.randn(2, 3, 16, 16)) for _ in range(3))
        loss = F.triplet_margin_loss(a, b, c)
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down1, self.down2 = nn.Conv2d(3, 8, 3, 1, 1), nn.Conv2d(8, 16, 3, 1, 1)
        self.up = nn.ConvTranspose2d(16, 8, 2, 2)
        self.out = nn.Conv2d(16, 2, 3, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a = F.silu(self.down1(x))
        b = F.silu(self.down2(F.max_pool2d(a, 2)))
        return self.out(torch.cat([a, self.up(b)], 1))


def unet(check: Check) -> None:
    model = UNet()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(STEPS):
        logits = model(torch.randn(2, 3, 8, 8))
        target = torch.randint(2, (2, 8, 8))
        target[0] = 255  # ignored: the loss is on a part of the batch
        loss = F.cross_entropy(logits, target, ignore_index=255)
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def lstm_with_a_carried_state(check: Check) -> None:
    rnn, head = nn.LSTM(4, 8, batch_first=True), nn.Linear(8, 2)
    optimizer = torch.optim.Adam([*rnn.parameters(), *head.parameters()])
    state: Any = None
    for _ in range(STEPS):
        out, state = rnn(torch.randn(3, 6, 4), state)
        state = tuple(s.detach() for s in state)
        loss = head(out).pow(2).mean()
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def tied_weights(check: Check) -> None:
    table, core, head = nn.Embedding(20, 8), nn.Linear(8, 8), nn.Linear(8, 20, bias=False)
    head.weight = table.weight
    model = nn.Sequential(table, core, head)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(STEPS):
        loss = F.cross_entropy(model(torch.randint(20, (5,))), torch.randint(20, (5,)))
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def masked_attention_and_logits(check: Check) -> None:
    q, k, out = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 5)
    optimizer = torch.optim.Adam([*q.parameters(), *k.parameters(), *out.parameters()])
    for _ in range(STEPS):
        x = torch.randn(2, 6, 4)
        scores = q(x) @ k(x).mT
        scores = scores.masked_fill(torch.ones(6, 6).triu(1).bool(), -torch.inf)
        logits = out(scores.softmax(-1) @ x).masked_fill(torch.tensor([False, True, False, False, True]), -torch.inf)
        policy = torch.distributions.Categorical(logits=logits)
        loss = -policy.log_prob(torch.zeros(2, 6)).mean() + 0 * logits.logsumexp(-1).mean()
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def connectionist_temporal_classification(check: Check) -> None:
    model = nn.Linear(4, 6)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(STEPS):
        log_probs = model(torch.randn(10, 2, 4)).log_softmax(-1)
        loss = F.ctc_loss(log_probs, torch.tensor([[1, 2, 3], [2, 2, 4]]), (10, 10), (3, 3))
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


PROGRAMS = programs(globals())
