"""Models and loops of the tests on clipping: an ordinary loop, and the same one with a release."""

from __future__ import annotations

import copy
from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import nn

import backsight.gradient_release as gradient_release
from backsight.gradient_release.clipping.gradient import FactoredGradient

BUCKET = 20_000
"""Bytes; the models have about a megabyte of gradients."""


MAKERS = {
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
    "AdamW foreach": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3, foreach=True),
    "AdamW fused": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3, fused=True),
}


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        split = self.qkv(self.norm(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.mlp_norm(x))))


class Transformer(nn.Module):
    """A small GPT whose head is tied to its embedding, and whose block is called twice."""

    def __init__(self, words=400, width=96):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(32, width)
        self.block, self.norm = Block(width, 4), nn.RMSNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight

    def forward(self, index):
        x = self.words(index) + self.places(torch.arange(index.shape[1]))
        return self.head(self.norm(self.block(self.block(x))))


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1),
            nn.GroupNorm(4, 16),
            nn.ReLU(inplace=True),
            nn.Conv2d(16, 32, 3, stride=2),
            nn.BatchNorm2d(32),
            nn.ReLU(inplace=True),
            nn.Flatten(),
            nn.Linear(32 * 5 * 5, 64),
            nn.ReLU(inplace=True),
            nn.Linear(64, 10),
        )

    def forward(self, images):
        return self.body(images)


def words(steps, seed=0):
    """Batches of token ids for `Transformer`."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(0, 400, (2, 7), generator=generator) for _ in range(steps)]


def images(steps, dtype=torch.float32):
    """Batches of images for `Convolutions`."""
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(4, 3, 12, 12, generator=generator, dtype=dtype) for _ in range(steps)]


def loss_of(model, batch):
    out = model(batch)
    if batch.is_floating_point():
        return F.cross_entropy(out, torch.arange(len(batch)) % 10)
    return F.cross_entropy(out[:, :-1].flatten(0, 1), batch[:, 1:].flatten())


def micro_batches(batch, number):
    return [batch.roll(at, 0) for at in range(number)]


def ordinary(model, optimizer, batches, max_norm, *, norm_type=2.0, scaler=None, micro=1):
    """Train in the ordinary way, with `clip_grad_norm_`; return the norm of each step."""
    norms = []
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, len(batches))
    for batch in batches:
        for each in micro_batches(batch, micro):
            loss = loss_of(model, each)
            (loss if scaler is None else scaler.scale(loss)).backward()
        if scaler is not None:
            scaler.unscale_(optimizer)
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), max_norm, norm_type))
        if scaler is not None:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    return norms


def released(model, optimizer, batches, max_norm, method, *, norm_type=2.0, scaler=None, micro=1, bucket=BUCKET):
    """Train the same with a release that clips; return it, and the norm of each step."""
    release = gradient_release.release(optimizer, bucket=bucket)
    release.clip(max_norm, norm_type, method)
    norms = []
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, len(batches))
    for batch in batches:
        for left, each in zip(range(micro - 1, -1, -1), micro_batches(batch, micro), strict=True):
            loss = loss_of(model, each)
            loss = loss if scaler is None else scaler.scale(loss)
            with release.accumulate() if left else nullcontext():
                if method == "two-pass":
                    release.backward(loss, scaler=scaler)
                else:
                    loss.backward()
        if scaler is not None:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        norms.append(release.grad_norm())
    return release, norms


def both(model, make, batches, max_norm, method, scaler=lambda: None, **kwargs):
    """Run both loops from the same start; return (model, optimizer, norms, scaler) of each, and the release."""
    twin = copy.deepcopy(model)
    optimizer, again = make(model.parameters()), make(twin.parameters())
    scalers = scaler(), scaler()
    norms = ordinary(model, optimizer, batches, max_norm, scaler=scalers[0], **kwargs)
    release, clipped = released(twin, again, batches, max_norm, method, scaler=scalers[1], **kwargs)
    return (model, optimizer, norms, scalers[0]), (twin, again, clipped, scalers[1]), release


def assert_equal_bits(first, second):
    """Assert that weights, state and groups of two (model, optimizer, norms, scaler) are the same bits."""
    for one, other in zip(first[0].parameters(), second[0].parameters(), strict=True):
        assert torch.equal(one, other)
    state, other_state = first[1].state_dict(), second[1].state_dict()
    assert state["param_groups"] == other_state["param_groups"]
    assert state["state"].keys() == other_state["state"].keys()
    for key, values in state["state"].items():
        for name, value in values.items():
            other = other_state["state"][key][name]
            assert torch.equal(value, other) if isinstance(value, torch.Tensor) else value == other


def assert_close(first, second, rtol):
    """Assert that the weights are equal up to `rtol`, measured by the largest number of each."""
    for one, other in zip(first[0].parameters(), second[0].parameters(), strict=True):
        assert float((one - other).detach().abs().max()) <= rtol * float(one.detach().abs().max().clamp_min(1e-3))


def gradients(model, *inputs, loss=lambda out: out.square().sum()):
    """Run backward from zero gradients, once for each input."""
    model.zero_grad()
    for each in inputs:
        loss(model(each)).backward()
    return {name: p.grad for name, p in model.named_parameters()}


def is_factored(gradient):
    return type(gradient) is FactoredGradient and len(gradient.factors) > 0
