"""Healthy training programs: small networks, written as people write them.

Each takes `check`, which it calls with the audit of every loss just before its backward, three steps long or more.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import backsight as bs

STEPS = 4
Check = Callable[[bs.Report], None]


def mlp(inputs: int = 4, outputs: int = 3, width: int = 8) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, outputs))


def zero_grad_before_the_forward(check: Check) -> None:
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(torch.randn(5, 4)), torch.randint(3, (5,)))
        check(bs.audit(loss))
        loss.backward()
        optimizer.step()
        scheduler.step()


def zero_grad_after_the_loss(check: Check) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(STEPS):
        loss = F.cross_entropy(model(torch.randn(5, 4)), torch.randint(3, (5,)))
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


def zero_grad_in_place_after_the_loss(check: Check) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(STEPS):
        loss = F.cross_entropy(model(torch.randn(5, 4)), torch.randint(3, (5,)))
        check(bs.audit(loss))
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()


def accumulating_gradients(check: Check) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for micro in range(3 * STEPS):
        loss = F.cross_entropy(model(torch.randn(5, 4)), torch.randint(3, (5,))) / 3
        check(bs.audit(loss))
        loss.backward()
        if (micro + 1) % 3 == 0:
            optimizer.step()
            optimizer.zero_grad(set_to_none=micro % 2 == 0)


def closure_of_lbfgs(check: Check) -> None:
    model = mlp()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)
    x, y = torch.randn(5, 4), torch.randint(3, (5,))

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        check(bs.audit(loss))
        loss.backward()
        return loss

    for _ in range(STEPS):
        optimizer.step(closure)


def adam_then_lbfgs(check: Check) -> None:
    model = mlp()
    adam, lbfgs = torch.optim.Adam(model.parameters()), torch.optim.LBFGS(model.parameters(), max_iter=2)
    x, y = torch.randn(5, 4), torch.randint(3, (5,))
    for _ in range(STEPS):
        adam.zero_grad()
        loss = F.cross_entropy(model(x), y)
        check(bs.audit(loss))
        loss.backward()
        adam.step()

    def closure() -> torch.Tensor:
        lbfgs.zero_grad()
        loss = F.cross_entropy(model(x), y)
        check(bs.audit(loss))
        loss.backward()
        return loss

    for _ in range(STEPS):
        lbfgs.step(closure)


def average_of_weights(check: Check) -> None:
    model = mlp()
    average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    slow = copy.deepcopy(model)
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(STEPS):
        loss = F.cross_entropy(model(torch.randn(5, 4)), torch.randint(3, (5,)))
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.update_parameters(model)
        with torch.no_grad():
            for s, p in zip(slow.parameters(), model.parameters(), strict=True):
                s.lerp_(p, 0.1)


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


def functional_call(check: Check) -> None:
    model = mlp()
    weights = dict(model.named_parameters())
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(STEPS):
        out = torch.func.functional_call(model, weights, (torch.randn(5, 4),))
        loss = F.cross_entropy(out, torch.randint(3, (5,)))
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def stateless_weights_in_a_list(check: Check) -> None:
    weights = [torch.randn(4, 8, requires_grad=True), torch.randn(8, 3, requires_grad=True)]
    optimizer = torch.optim.SGD(weights, lr=0.1)
    for _ in range(STEPS):
        loss = F.cross_entropy((torch.randn(5, 4) @ weights[0]).relu() @ weights[1], torch.randint(3, (5,)))
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def autocast_with_a_scaler(check: Check) -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu")
    for _ in range(STEPS):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(torch.randn(5, 4)).float(), torch.randint(3, (5,)))
        scaled = scaler.scale(loss)
        check(bs.audit(scaled))
        optimizer.zero_grad()
        scaled.backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()


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


def loss_summed_over_a_sequence(check: Check) -> None:
    cell = nn.GRUCell(4, 8)
    optimizer = torch.optim.Adam(cell.parameters())
    for _ in range(STEPS):
        h, loss = torch.zeros(3, 8), torch.zeros(())
        for _ in range(5):
            h = cell(torch.randn(3, 4), h)
            loss = loss + h.pow(2).mean()
            check(bs.audit(loss))  # within the sequence, where the graph grows as it should
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def mixture_of_experts(check: Check) -> None:
    router, experts = nn.Linear(4, 6), nn.ModuleList(mlp(4, 3) for _ in range(6))
    optimizer = torch.optim.Adam([*router.parameters(), *experts.parameters()])
    for _ in range(STEPS):
        x = torch.randn(3, 4)
        weight, chosen = router(x).softmax(-1).topk(1)
        out = torch.stack([experts[int(e)](row) * w for row, w, e in zip(x, weight, chosen, strict=True)])
        loss = F.cross_entropy(out, torch.randint(3, (3,)))
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def stochastic_depth(check: Check) -> None:
    model = nn.ModuleList(nn.Linear(8, 8) for _ in range(6))
    stem, head = nn.Linear(4, 8), nn.Linear(8, 3)
    optimizer = torch.optim.Adam([*stem.parameters(), *model.parameters(), *head.parameters()])
    for _ in range(2 * STEPS):
        h = stem(torch.randn(5, 4))
        for layer in model:
            if torch.rand(()) > 0.5:
                h = h + layer(h).relu()
        loss = F.cross_entropy(head(h), torch.randint(3, (5,)))
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def multi_task_with_alternating_heads(check: Check) -> None:
    trunk, heads = mlp(outputs=8), nn.ModuleDict({"a": nn.Linear(8, 2), "b": nn.Linear(8, 3)})
    optimizer = torch.optim.Adam([*trunk.parameters(), *heads.parameters()])
    for step in range(2 * STEPS):
        out = heads["ab"[step % 2]](trunk(torch.randn(5, 4)))
        loss = out.pow(2).mean()
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


def several_losses_over_one_forward(check: Check) -> None:
    trunk, a, b = mlp(outputs=8), nn.Linear(8, 1), nn.Linear(8, 1)
    optimizer = torch.optim.Adam([*trunk.parameters(), *a.parameters(), *b.parameters()])
    for _ in range(STEPS):
        h = trunk(torch.randn(5, 4))
        first, second = a(h).mean(), b(h).pow(2).mean()
        optimizer.zero_grad()
        check(bs.audit(first))
        first.backward(retain_graph=True)
        check(bs.audit(second))
        second.backward()
        optimizer.step()


def one_loss_for_several_optimizers(check: Check) -> None:
    encoder, decoder = mlp(outputs=2), mlp(2, 4)
    optimizers = {"encoder": torch.optim.Adam(encoder.parameters()), "decoder": torch.optim.Adam(decoder.parameters())}
    for _ in range(STEPS):
        x = torch.randn(5, 4)
        loss = F.mse_loss(decoder(encoder(x)), x)
        check(bs.audit(loss))
        for optimizer in optimizers.values():
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers.values():
            optimizer.step()


def folds_trained_at_one_line(check: Check) -> None:
    for _ in range(3):
        model = mlp()
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(STEPS):
            loss = F.cross_entropy(model(torch.randn(5, 4)), torch.randint(3, (5,)))
            check(bs.audit(loss))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def layers_that_join_one_by_one(check: Check) -> None:
    layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(STEPS))
    optimizer = torch.optim.Adam(layers.parameters())
    for depth in range(1, STEPS + 1):
        h = torch.randn(5, 4)
        for layer in list(layers)[:depth]:
            h = layer(h).relu()
        loss = h.mean()
        check(bs.audit(loss))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


PROGRAMS = [
    f
    for f in list(globals().values())
    if callable(f) and getattr(f, "__module__", "") == __name__ and "check" in getattr(f, "__annotations__", ())
]
