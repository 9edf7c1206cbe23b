"""The graphs that capture is measured on: each builds its model once and returns a step that gives a fresh loss."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import nn

Step = Callable[[], torch.Tensor]


def linear_regression() -> Step:
    model, x, y = nn.Linear(4, 1), torch.randn(64, 4), torch.randn(64, 1)
    return lambda: nn.functional.mse_loss(model(x), y)


def encoder(layers: int) -> Step:
    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
    model, x = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False), torch.randn(2, 16, 64)
    return lambda: model(x).mean()


class Block(nn.Module):
    """A basic residual block, as in ResNet-18."""

    def __init__(self, narrow: int, wide: int) -> None:
        super().__init__()
        stride = wide // narrow
        self.body = nn.Sequential(
            nn.Conv2d(narrow, wide, 3, stride, 1, bias=False),
            nn.BatchNorm2d(wide),
            nn.ReLU(),
            nn.Conv2d(wide, wide, 3, 1, 1, bias=False),
            nn.BatchNorm2d(wide),
        )
        shrink = nn.Sequential(nn.Conv2d(narrow, wide, 1, stride, bias=False), nn.BatchNorm2d(wide))
        self.skip = nn.Identity() if narrow == wide else shrink

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.skip(x))


def residual_network() -> nn.Sequential:
    """ResNet-18 at an eighth of its width."""
    widths = [8, 8, 8, 16, 16, 32, 32, 64, 64]
    stem = [nn.Conv2d(3, 8, 3, 1, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU()]
    blocks = [Block(narrow, wide) for narrow, wide in pairwise(widths)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)]
    return nn.Sequential(*stem, *blocks, *head)


def resnet() -> Step:
    """ResNet-18's graph at an eighth of its width."""
    model, x, y = residual_network(), torch.randn(4, 3, 32, 32), torch.randint(10, (4,))
    return lambda: nn.functional.cross_entropy(model(x), y)


def language_model() -> tuple[nn.Module, torch.Tensor]:
    """The 12 layers of GPT-2 at a twelfth of their width, and tokens."""
    from transformers import GPT2Config, GPT2LMHeadModel, logging

    logging.set_verbosity_error()
    config = GPT2Config(n_layer=12, n_embd=64, n_head=4, vocab_size=512, n_positions=64, bos_token_id=0, eos_token_id=0)
    return GPT2LMHeadModel(config), torch.randint(512, (2, 32))


def gpt2() -> Step:
    """The loss of GPT-2."""
    model, tokens = language_model()
    return lambda: model(tokens, labels=tokens, use_cache=False).loss


def chain(length: int) -> Step:
    x = torch.ones(1, requires_grad=True)

    def step() -> torch.Tensor:
        y = x
        for _ in range(length):
            y = y * 1.0
        return y

    return step


class UNet(nn.Module):
    """A small U-Net of two levels that is told the time."""

    def __init__(self, width: int = 8, time: int = 16) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Linear(time, time), nn.SiLU(), nn.Linear(time, width))
        self.inward, self.down = nn.Conv2d(3, width, 3, 1, 1), nn.Conv2d(width, width, 3, 2, 1)
        self.middle = nn.Sequential(nn.GroupNorm(4, width), nn.SiLU(), nn.Conv2d(width, width, 3, 1, 1))
        self.up, self.outward = nn.Conv2d(2 * width, width, 3, 1, 1), nn.Conv2d(width, 3, 3, 1, 1)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        before = self.inward(x) + self.time(time)[:, :, None, None]
        below = self.down(before)
        below = below + self.middle(below)
        above = nn.functional.interpolate(below, scale_factor=2)
        return self.outward(torch.relu(self.up(torch.cat([above, before], 1))))
