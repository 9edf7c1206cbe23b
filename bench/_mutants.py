"""Four small models, each with mistakes that can be switched on by name: what `bench/parting.py` compares.

The line that a mistake changes ends with its name as a comment; where PyTorch's own code does it, the module is told.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

On = frozenset[str]


class Doubled(torch.autograd.Function):
    """A custom Function whose backward is wrong where it is asked to be."""

    @staticmethod
    def forward(ctx, x: Tensor, wrong: bool) -> Tensor:
        ctx.wrong = wrong
        return x.clone()

    @staticmethod
    def backward(ctx, g: Tensor):
        return (g * 0.5 if ctx.wrong else g * 1.0), None  # custom backward


class Attention(nn.Module):
    def __init__(self, width: int, heads: int, on: On):
        super().__init__()
        self.heads, self.on = heads, on
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.drop = nn.Dropout(0.1 if "dropout p" in on else 0.0)
        self.register_buffer("mask", torch.ones(64, 64).tril(1 if "mask buffer" in on else 0))

    def forward(self, x: Tensor) -> Tensor:
        on, (b, t, c) = self.on, x.shape
        if "fused qkv" in on:
            parts = zip(self.qkv.weight.chunk(3), self.qkv.bias.chunk(3), strict=True)
            q, k, v = (F.linear(x, *part) for part in parts)
        else:
            q, k, v = self.qkv(x).split(c, 2)
        q, k, v = (each.view(b, t, self.heads, -1).transpose(1, 2) for each in (q, k, v))
        if "q and k" in on:
            q, k = k, q
        if "sdpa" in on:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.out(y.transpose(1, 2).reshape(b, t, c))
        scores = q @ k.transpose(-2, -1)
        if "no scale" not in on:
            size = c if "scale by width" in on else c // self.heads
            scores = scores / math.sqrt(size)  # no scale, scale by width
        mask = torch.ones(t, t).tril(-1 if "mask" in on else 0)  # mask
        mask = self.mask[:t, :t] if "mask buffer" in on else mask
        scores = scores.masked_fill(mask == 0, -1e4 if "fill" in on else -1e9)  # fill
        weights = scores.softmax(-2 if "softmax dim" in on else -1)  # softmax dim
        y = self.drop(weights) @ v
        return self.out(y.transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, on: On):
        super().__init__()
        self.on = on
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width, eps=1e-6 if "ln eps" in on else 1e-5)
        self.attention = Attention(width, heads, on)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.square = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        on = self.on
        x = (x + self.attention(self.ln1(x))) if "no residual" not in on else self.attention(self.ln1(x))  # no residual
        h = self.ln2(x)
        if "manual ln" in on:
            mean = x.mean(-1, keepdim=True)
            h = (x - mean) / (x.var(-1, unbiased=False, keepdim=True) + 1e-5).sqrt() * self.ln2.weight + self.ln2.bias
        h = self.up(h)
        if "bf16 mlp" in on:
            h = h.bfloat16().float()  # bf16 mlp
        if "manual gelu" in on:
            h = 0.5 * h * (1 + torch.erf(h / math.sqrt(2)))
        else:
            h = F.gelu(h, approximate="tanh" if "gelu tanh" in on else "none")  # gelu tanh
        h = self.down(h)
        w = self.square.weight
        h = h + h @ (w if "transposed" in on else w.t())  # transposed
        h = Doubled.apply(h, "custom backward" in on)
        return (x + h) if "swapped add" not in on else (h + x)


class GPT(nn.Module):
    def __init__(self, on: On, width: int = 32, heads: int = 4, layers: int = 3, vocabulary: int = 50):
        super().__init__()
        self.on = on
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(64, width)
        name = "layers" if "renamed" in on else "blocks"
        setattr(self, name, nn.ModuleList(Block(width, heads, on) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.05 if "init std" in on else 0.1)
        if "tied" in on:
            self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        on, t = self.on, tokens.shape[1]
        first = 1 if "position" in on else 0
        x = self.tokens(tokens) + self.places(torch.arange(first, t + first))  # position
        for block in self.layers if "renamed" in on else self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if "checkpoint" in on else block(x)
        return self.head(self.norm(x))


class Basic(nn.Module):
    def __init__(self, inside: int, outside: int, stride: int, on: On):
        super().__init__()
        self.on = on
        self.a = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        padding = "circular" if "padding" in on else "zeros"
        self.b = nn.Conv2d(outside, outside, 3, 1, 1, bias=False, padding_mode=padding)
        momentum = 0.5 if "bn momentum" in on else 0.1
        self.na = nn.BatchNorm2d(outside, eps=1e-3 if "bn eps" in on else 1e-5)
        self.nb = nn.BatchNorm2d(outside, momentum=momentum)
        self.short = nn.Conv2d(inside, outside, 1, stride) if inside != outside else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        on = self.on
        h = self.na(self.a(x))
        h = F.relu(h) if "no relu" not in on else h  # no relu
        h = self.nb(self.b(h))
        if "relu before add" in on:
            return self.short(x) + F.relu(h)  # relu before add
        if "leaky" in on:
            return F.leaky_relu(self.short(x) + h, 0.1)  # leaky
        return F.relu(h + self.short(x) if "swapped add" in on else self.short(x) + h)  # relu before add, leaky


class ResNet(nn.Module):
    def __init__(self, on: On):
        super().__init__()
        self.on = on
        self.stem = nn.Conv2d(3, 8, 3, 1, 1)
        self.blocks = nn.Sequential(Basic(8, 8, 1, on), Basic(8, 16, 2, on), Basic(16, 16, 1, on))
        self.head = nn.Linear(16, 10)
        if "init" in on:
            nn.init.kaiming_normal_(self.stem.weight)
        if "stale buffer" in on:
            self.blocks[1].na.running_mean.add_(0.5)
        if "bn eval" in on:
            self.blocks[1].na.eval()
        if "zero init" in on:
            nn.init.zeros_(self.head.weight)

    def forward(self, x: Tensor) -> Tensor:
        on = self.on
        if "normalized" in on:
            x = (x - 0.5) / 0.5  # normalized
        if "channels last" in on:
            x = x.contiguous(memory_format=torch.channels_last)
        x = self.blocks(F.relu(self.stem(x)))
        if "bf16 conv" in on:
            x = x.bfloat16().float()  # bf16 conv
        x = x.amax((2, 3)) if "max pool" in on else x.mean((2, 3))  # max pool
        if "manual mean" in on:
            x = x * 1.0
        return self.head(x)


class LSTM(nn.Module):
    def __init__(self, on: On, inside: int = 8, width: int = 16):
        super().__init__()
        self.on, self.width = on, width
        self.x, self.h = nn.Linear(inside, 4 * width), nn.Linear(width, 4 * width)
        self.head = nn.Linear(width, 4)
        if "forget bias" in on:
            nn.init.ones_(self.x.bias[width : 2 * width].detach())
        self.kept: tuple[Tensor, Tensor] | None = None

    def forward(self, x: Tensor) -> Tensor:
        on = self.on
        make = torch.ones if "first state" in on else torch.zeros
        h = c = make(len(x), self.width)  # first state
        if "carried" in on and self.kept is not None:
            h, c = (each.detach() for each in self.kept)
        for t in range(x.shape[1]):
            gates = self.x(x[:, t]) + self.h(h)
            if "one matmul" in on:
                both = torch.cat([self.x.weight, self.h.weight], 1)
                gates = torch.cat([x[:, t], h], 1) @ both.t() + (self.x.bias + self.h.bias)
            i, f, g, o = gates.chunk(4, 1)
            if "gate order" in on:
                i, f = f, i
            g = g.sigmoid() if "gate" in on else g.tanh()  # gate
            c = f.sigmoid() * c + i.sigmoid() * g
            h = o.sigmoid() * (c if "no tanh" in on else c.tanh())  # no tanh
            if "detached" in on and t == 2:
                h = h.detach()
            if "hidden dropout" in on:
                h = F.dropout(h, 0.2)  # hidden dropout
            if "clamped" in on:
                h = h.clamp(-0.2, 0.2)  # clamped
        self.kept = h, c
        return self.head(h)


class UNet(nn.Module):
    def __init__(self, on: On):
        super().__init__()
        self.on = on
        eps = 1e-3 if "gn eps" in on else 1e-5
        self.a, self.b, self.c = nn.Conv2d(1, 8, 3, 1, 1), nn.Conv2d(8, 16, 3, 2, 1), nn.Conv2d(16, 16, 3, 1, 1)
        self.norm = nn.GroupNorm(2 if "groups" in on else 4, 16, eps=eps)
        self.d, self.out = nn.Conv2d(24, 8, 3, 1, 1), nn.Conv2d(8, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        on = self.on
        skip = F.silu(self.a(x))
        h = self.c(F.silu(self.norm(self.b(skip))))
        if "nearest" in on:
            h = F.interpolate(h, scale_factor=2, mode="nearest")  # nearest
        else:
            h = F.interpolate(h, scale_factor=2, mode="bilinear", align_corners="corners" in on)  # nearest, corners
        skip = skip * 0.5 if "skip scale" in on else skip  # skip scale
        skip = torch.zeros_like(skip) if "no skip" in on else skip  # no skip
        h = torch.cat([skip, h] if "concat order" in on else [h, skip], 1)  # concat order, no skip
        h = self.d(h)
        if "no activation" not in on:
            h = h * h.sigmoid() if "manual silu" in on else F.silu(h)  # no activation
        return self.out(h).sigmoid() if "double sigmoid" in on else self.out(h)  # double sigmoid


MODELS = {"gpt": GPT, "resnet": ResNet, "lstm": LSTM, "unet": UNet}


def batch(model: str, step: int, on: On) -> tuple[Tensor, Tensor]:
    """Return inputs and targets of a step."""
    order = step + 1 if "data order" in on else step
    g = torch.Generator().manual_seed(100 + order)
    if model == "gpt":
        tokens = torch.randint(0, 50, (4, 17), generator=g)  # data order
        return tokens[:, :-1], tokens[:, :-1] if "unshifted" in on else tokens[:, 1:]  # unshifted
    if model == "resnet":
        x = torch.rand(8, 3, 16, 16, generator=g)
        return x.flip(3) if "flipped" in on else x, torch.randint(0, 10, (8,), generator=g)  # flipped
    if model == "lstm":
        return torch.randn(8, 6, 8, generator=g), torch.randint(0, 4, (8,), generator=g)
    x = torch.randn(4, 1, 16, 16, generator=g)
    return x, (x > 0.3 if "threshold" in on else x > 0).float()  # threshold


def loss_of(model: str, out: Tensor, target: Tensor, on: On) -> Tensor:
    if model == "unet":
        if "mse" in on:
            return F.mse_loss(out, target)  # mse
        weight = torch.tensor(2.0) if "positive weight" in on else None
        if "manual bce" in on:
            return (out.clamp(min=0) - out * target + torch.log1p(torch.exp(-out.abs()))).mean()
        return F.binary_cross_entropy_with_logits(out, target, pos_weight=weight)  # positive weight, mse
    if model == "gpt":
        out, target = out.reshape(-1, out.shape[-1]), target.reshape(-1)
    if "manual loss" in on:
        return -out.log_softmax(1).gather(1, target[:, None]).mean()
    smoothing = 0.1 if "smoothing" in on else 0.0
    reduction = "sum" if "summed" in on else "mean"
    return F.cross_entropy(out, target, reduction=reduction, label_smoothing=smoothing)  # smoothing, summed


def optimizer_of(model: nn.Module, on: On) -> torch.optim.Optimizer:
    lr = 2e-3 if "lr" in on else 1e-3
    if "sgd" in on:
        momentum = 0.0 if "momentum" in on else 0.9
        return torch.optim.SGD(model.parameters(), lr=lr, momentum=momentum, nesterov="nesterov" in on)
    betas = (0.9, 0.99) if "betas" in on else (0.9, 0.999)
    foreach = True if "foreach" in on else None
    kind = torch.optim.Adam if "adam" in on else torch.optim.AdamW
    decay = 0.0 if "no decay" in on else 0.01
    return kind(model.parameters(), lr=lr, betas=betas, weight_decay=decay, foreach=foreach)


def train(model: str, on: On, steps: int, within: Callable[[nn.Module], AbstractContextManager] | None = None):
    """Train a model for some steps; what is named in `on` is done otherwise.

    within: a context manager of the model that is entered for the steps.
    """
    torch.manual_seed(1 if "seed" in on else 0)
    if "threads" in on:
        torch.set_num_threads(1)
    net = MODELS[model](on)
    with within(net) if within is not None else nullcontext():
        _steps(model, net, on, steps)
    if "threads" in on:
        torch.set_num_threads(2)
    return net


def _steps(model: str, net: nn.Module, on: On, steps: int) -> None:
    optimizer = optimizer_of(net, on)
    for step in range(steps):
        x, y = batch(model, step, on)
        optimizer.zero_grad()
        if "micro batches" in on or "wrong average" in on:
            for part in zip(x.chunk(2), y.chunk(2), strict=True):
                loss = loss_of(model, net(part[0]), part[1], on)
                loss = loss if "wrong average" in on else loss / 2  # wrong average
                loss.backward()
        elif "autocast" in on:
            with torch.autocast("cpu", torch.bfloat16):
                loss = loss_of(model, net(x), y, on)
            loss.backward()
        else:
            loss = loss_of(model, net(x), y, on)
            if "loss scale" in on:
                loss = loss * 2  # loss scale
            loss.backward()
        if "clipped" in on:
            nn.utils.clip_grad_norm_(net.parameters(), 0.1)  # clipped
        if "lost momentum" in on and step == 1:
            optimizer.state.clear()
        if "frozen" in on:
            next(net.parameters()).grad = None
        optimizer.step()
