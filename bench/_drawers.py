"""Programs to be drawn, and the ways to draw them: backsight, and whichever of its peers are installed.

The peers draw with Graphviz's `dot`; without it they are asked for the text that `dot` would read.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from _graphs import UNet, language_model, residual_network
from torch import nn

import backsight

Program = tuple[nn.Module, tuple[torch.Tensor, ...]]
"""A module and its inputs: what some of the peers need, where a loss is enough for backsight and torchviz."""


class Formula(nn.Module):
    """The first example of PyTorch's own tutorial."""

    def forward(self, x1: torch.Tensor, x2: torch.Tensor) -> torch.Tensor:
        return torch.log(x1 * x2) * torch.sin(x2)


class Loss(nn.Module):
    """What a model's outputs come to."""

    def __init__(self, model: nn.Module, **options: Any) -> None:
        super().__init__()
        self.model, self.options = model, options

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.model(x, **self.options)
        return getattr(out, "logits", out).square().mean()


class Sampler(nn.Module):
    """A diffusion model's sampler, unrolled."""

    def __init__(self, steps: int = 50) -> None:
        super().__init__()
        self.net = UNet()
        self.register_buffer("times", torch.randn(steps, 1, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for time in self.times:
            predicted = self.net(x, time)
            x = 0.9 * (x - 0.1 * predicted) + 0.1 * predicted
        return x.mean()


class Chain(nn.Module):
    """Many operations, one after the other."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.length = length

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(self.length):
            x = x * 1.0
        return x


def formula() -> Program:
    return Formula(), (torch.tensor(2.0, requires_grad=True), torch.tensor(5.0, requires_grad=True))


def resnet() -> Program:
    return Loss(residual_network()), (torch.randn(4, 3, 32, 32),)


def gpt2() -> Program:
    model, tokens = language_model()
    return Loss(model, use_cache=False), (tokens,)


def sampler() -> Program:
    return Sampler(), (torch.randn(1, 3, 16, 16),)


def chain(length: int) -> Program:
    return Chain(length), (torch.ones(1, requires_grad=True),)


def installed() -> dict[str, Callable[[Program, torch.Tensor], str]]:
    """Return the peers that are there, by name; each draws a program, or its loss, as text."""
    peers = {"torchviz": _torchviz, "torchview": _torchview, "torchlens": _torchlens, "torchvista": _torchvista}
    return {name: draw for name, draw in peers.items() if find_spec(name)}


def by_backsight(form: str) -> Callable[[torch.Tensor], str]:
    """Return backsight's way from a loss to a picture: `form` is a method of a graph."""
    return lambda loss: getattr(backsight.graph(loss), form)()


def _torchviz(program: Program, loss: torch.Tensor) -> str:
    from torchviz import make_dot

    return _drawn(make_dot(loss))


def _torchview(program: Program, loss: torch.Tensor) -> str:
    from torchview import draw_graph

    return _drawn(draw_graph(program[0], program[1]).visual_graph)


def _torchlens(program: Program, loss: torch.Tensor) -> str:
    import torchlens

    trace = torchlens.trace(program[0], list(program[1]))
    with tempfile.TemporaryDirectory() as folder:
        trace.draw(vis_outpath=f"{folder}/graph", vis_fileformat="svg")
        return Path(f"{folder}/graph.svg").read_text()


def _torchvista(program: Program, loss: torch.Tensor) -> str:
    import torchvista

    with tempfile.TemporaryDirectory() as folder:
        torchvista.trace_model(program[0], program[1], export_path=f"{folder}/graph.html")
        return Path(f"{folder}/graph.html").read_text()


def _drawn(dot: Any) -> str:
    return dot.pipe("svg", encoding="utf-8") if shutil.which("dot") else dot.source
