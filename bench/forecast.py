"""How near a forecast comes to the CPU allocator's own peak, and how long a model of 7 billion parameters takes.

    python bench/forecast.py [--quick]

The truth is the sum of the reports of PyTorch's allocator over the second training step, with the tensors that were
there before it. The large model is a decoder as Llama's, fp32, with AdamW and a batch of 1×1024; all ways of doing the
step are forecast, in one process, with what they say of CUDA's caching allocator. One thread.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from _measure import report, simple_table, verdict
from torch import nn
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile

import backsight as bs

MIB = 1 << 20

Optimizer = Callable[..., torch.optim.Optimizer]
ADAMW = partial(torch.optim.AdamW, lr=1e-3)
FUSED, FOREACH = partial(ADAMW, fused=True), partial(ADAMW, foreach=True)


class Block(nn.Module):
    """A layer of a decoder, with the gated feed-forward part of Llama."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, tokens, width = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        attended = F.scaled_dot_product_attention(*parts.permute(2, 0, 3, 1, 4), is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, tokens, width))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """A language model that returns its loss."""

    def __init__(self, width: int = 256, layers: int = 6, heads: int = 8, hidden: int = 688, words: int = 4096) -> None:
        super().__init__()
        self.emb, self.norm = nn.Embedding(words, width), nn.RMSNorm(width)
        self.blocks = nn.ModuleList(Block(width, heads, hidden) for _ in range(layers))
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, words: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        x = self.emb(words)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), target.flatten())


class Checkpointed(Decoder):
    """The same, with its blocks computed again in the backward pass."""

    def forward(self, words: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        x = self.emb(words)
        for block in self.blocks:
            x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), target.flatten())


class Regression(nn.Sequential):
    """Layers and the squared error."""

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.mse_loss(super().forward(x), target)


class Images(nn.Sequential):
    """Layers and the cross-entropy."""

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(super().forward(x), target)


@dataclass(frozen=True)
class Case:
    """A training step."""

    model: nn.Module
    batch: tuple[torch.Tensor, ...]
    optimizer: Optimizer = FUSED
    autocast: torch.dtype | None = None
    release: str | None = None


def words(batch: int, tokens: int, known: int = 4096) -> tuple[torch.Tensor, torch.Tensor]:
    drawn = torch.randint(0, known, (batch, tokens + 1))
    return drawn[:, :-1], drawn[:, 1:]


def layers() -> Case:
    return Case(Regression(*(nn.Linear(256, 256) for _ in range(100))), (torch.randn(32, 256), torch.randn(32, 256)))


def convolutions() -> Case:
    def stage(before: int, after: int) -> list[nn.Module]:
        return [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(), nn.MaxPool2d(2)]

    stages = (*stage(3, 32), *stage(32, 64), *stage(64, 128))
    model = Images(*stages, nn.Flatten(), nn.Linear(128 * 64, 10))
    return Case(model, (torch.randn(16, 3, 64, 64), torch.randint(0, 10, (16,))))


def encoder() -> Case:
    layer = nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True)
    model = Images(nn.Embedding(4096, 256), nn.TransformerEncoder(layer, 4), nn.Flatten(), nn.Linear(128 * 256, 10))
    return Case(model, (words(4, 128)[0], torch.randint(0, 10, (4,))))


class Tagger(nn.Module):
    """An LSTM over a text, and a label for each word."""

    def __init__(self, width: int, layers: int, both_ways: bool = False) -> None:
        super().__init__()
        self.lstm = nn.LSTM(width, width, layers, bidirectional=both_ways)
        self.head = nn.Linear(width * (1 + both_ways), 20)

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.head(self.lstm(x)[0]).flatten(0, 1), target.flatten())


def text(width: int, length: int, batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(length, batch, width), torch.randint(0, 20, (length, batch))


def volumes() -> Case:
    model = Images(
        *(nn.Conv3d(1, 16, 3, padding=1), nn.BatchNorm3d(16), nn.ReLU(), nn.MaxPool3d(2)),
        *(nn.Conv3d(16, 32, 3, stride=2), nn.ReLU(), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(32, 10)),
    )
    return Case(model, (torch.randn(4, 1, 32, 32, 32), torch.randint(0, 10, (4,))))


def pictures() -> Case:
    def up(before: int, after: int) -> list[nn.Module]:
        return [nn.ConvTranspose2d(before, after, 4, 2, 1), nn.BatchNorm2d(after), nn.ReLU()]

    model = Regression(nn.Unflatten(1, (128, 4, 4)), *up(128, 128), *up(128, 64), *up(64, 3))
    return Case(model, (torch.randn(32, 2048), torch.randn(32, 3, 32, 32)))


def sounds() -> Case:
    normed = nn.utils.parametrizations.weight_norm
    layers = (normed(nn.Conv1d(64, 64, 7, padding=3, groups=8)) for _ in range(4))
    return Case(Regression(*layers), (torch.randn(8, 64, 1024), torch.randn(8, 64, 1024)))


CASES: dict[str, Callable[[], Case]] = {
    "100 layers of 256×256": layers,
    "decoder, 4×128": lambda: Case(Decoder(), words(4, 128)),
    "decoder, 1×16": lambda: Case(Decoder(), words(1, 16)),
    "decoder, 1×16, foreach": lambda: Case(Decoder(), words(1, 16), FOREACH),
    "decoder, 1×16, released (1 MB)": lambda: Case(Decoder(), words(1, 16), release="1MB"),
    "decoder, 4×128, bf16 autocast": lambda: Case(Decoder(), words(4, 128), autocast=torch.bfloat16),
    "decoder, 4×128, checkpointed": lambda: Case(Checkpointed(), words(4, 128)),
    "decoder, 4×128, checkpointed, released": lambda: Case(Checkpointed(), words(4, 128), release="1MB"),
    "convolutions with batch norm": convolutions,
    "PyTorch's TransformerEncoder": encoder,
    "LSTM of 64, 400 words": lambda: Case(Tagger(64, 1), text(64, 400, 16)),
    "LSTM of 512, 2 layers, both ways": lambda: Case(Tagger(512, 2, both_ways=True), text(512, 50, 16)),
    "Conv3d": volumes,
    "ConvTranspose2d": pictures,
    "grouped Conv1d with weight norm": sounds,
}


def errors() -> dict[str, tuple[int, int]]:
    """Return the true peak of each case, and the forecast one."""
    found = {}
    for name, make in CASES.items():
        torch.manual_seed(0)
        case = make()
        optimizer = case.optimizer(case.model.parameters())
        options: dict[str, Any] = {"autocast": case.autocast, "release": case.release, "device": "cpu"}
        foretold = bs.forecast(case.model, case.batch, optimizer, variants=False, **options).peak
        if case.release is not None:
            bs.release(optimizer, bucket=case.release)
        found[name] = true_peak(case, optimizer), foretold
    foretold = bs.forecast(building, device="cpu").peak
    found["a step that builds its own decoder"] = reported_peak(building, ()), foretold
    return found


def building() -> None:
    """A step with a model and an optimizer of its own, which end with it."""
    model = Decoder()
    optimizer = FUSED(model.parameters())
    model(*words(4, 128)).backward()
    optimizer.step()


def true_peak(case: Case, optimizer: torch.optim.Optimizer) -> int:
    """Return the most bytes of the second step, by the reports of the allocator."""

    def step() -> None:
        with torch.autocast("cpu", case.autocast, enabled=case.autocast is not None):
            loss = case.model(*case.batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    def held() -> Iterator[torch.Tensor]:
        yield from (*case.model.parameters(), *case.model.buffers(), *case.batch)
        yield from (each for state in optimizer.state.values() for each in state.values() if torch.is_tensor(each))

    return reported_peak(step, held())


def reported_peak(step: Callable[[], None], held: Iterable[torch.Tensor]) -> int:
    """Return the most bytes of the second step; what is `held` then was there before it."""
    step()
    before = {each.untyped_storage().data_ptr(): each.untyped_storage().nbytes() for each in held}
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        step()
    now = peak = 0
    reports = [each for each in profiled.profiler.kineto_results.events() if each.name() == "[memory]"]
    for each in sorted(reports, key=lambda each: each.start_ns()):
        now += each.nbytes()
        peak = max(peak, now)
    return sum(before.values()) + peak


def seven_billion() -> tuple[bs.Forecast, float]:
    """Return the forecast of a step that no machine at hand could do, and its seconds."""
    began = time.perf_counter()
    build = partial(Decoder, width=4096, layers=32, heads=32, hidden=11008, words=32000)
    foretold = bs.forecast(build, partial(words, 1, 1024, 32000), torch.optim.AdamW, device_memory="80GB")
    return foretold, time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="without the large model")
    quick = parser.parse_args().quick
    torch.set_num_threads(1)
    table = simple_table("training step", "true MB", "forecast MB", "error", title="Peak of a step on the CPU")
    found = errors()
    for name, (true, foretold) in found.items():
        table.add_row(name, f"{true / MIB:.2f}", f"{foretold / MIB:.2f}", f"{foretold / true - 1:+.3%}")
    worst = max(abs(foretold / true - 1) for true, foretold in found.values())
    report(table, verdict(worst <= 0.001, f"within 0.1 % in {len(found)} cases: {worst:.3%} at worst"))
    if not quick:
        foretold, seconds = seven_billion()
        report(
            "", foretold, "", verdict(seconds < 15, f"7 billion parameters, all ways, in under 15 s: {seconds:.1f} s")
        )


if __name__ == "__main__":
    main()
