"""What backsight costs and saves on a GPU: times as ratios to the plain step, peaks by the caching allocator.

    python bench/device.py                        # everything: some minutes
    python bench/device.py statistics recording   # these parts
    BACKSIGHT_DEVICE=cpu python bench/device.py    # a rehearsal on the CPU: small, and its figures mean nothing

All ways of doing a thing take turns in one process; told are medians. A time ends when the device has done its work;
"until it returns" is what the thread that trains spends. Kept by `python bench/performance.py device`.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from _measure import report, simple_table, verdict
from forecast import CASES

import backsight as bs
from backsight.memory.caching_allocator import replay
from backsight.memory.plan import requests
from backsight.recording.statistics import measure, native, triton_launch

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))
from gpt import gpt, next_token_batch

DEVICE = os.environ.get("BACKSIGHT_DEVICE") or "cuda"
REHEARSAL = DEVICE == "cpu"
ROUNDS = 3 if REHEARSAL else 9
MIB = 1 << 20

Step = Callable[[], None]
Way = Callable[[], contextlib.AbstractContextManager[Step]]
"""What is entered around steps; gives the step."""


def finished() -> None:
    """Wait for the device."""
    if not REHEARSAL:
        torch.cuda.synchronize()


def seconds(step: Step, times: int = 1) -> tuple[float, float]:
    """Return the seconds of a call until it returns, and until the device has done its work."""
    finished()
    began = time.perf_counter()
    for _ in range(times):
        step()
    returned = time.perf_counter()
    finished()
    return (returned - began) / times, (time.perf_counter() - began) / times


def in_turn(ways: dict[str, Way], times: int = 3) -> dict[str, tuple[float, float, float]]:
    """Return for each way medians: seconds of a step, seconds until it returns, ratio to the first way."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for turn in range(ROUNDS + 1):
        for name, way in ways.items():
            gc.collect()
            with way() as step:
                step()
                taken = seconds(step, times)
            if turn:  # the first turn compiles, and finds out what is fastest
                found[name].append(taken)
    first = found[next(iter(ways))]
    return {
        name: (
            statistics.median(whole for _, whole in each),
            statistics.median(returned for returned, _ in each),
            statistics.median(whole / plain for (_, whole), (_, plain) in zip(each, first, strict=True)),
        )
        for name, each in found.items()
    }


class Training:
    """A GPT, a batch and an optimizer, stepped in bfloat16."""

    def __init__(self, width: int, layers: int, batch: int, tokens: int, **how: Any) -> None:
        torch.manual_seed(0)
        words = 512 if REHEARSAL else 16384
        self.model = gpt(words, width, layers, max(1, width // 64), context=tokens).to(DEVICE)
        self.batch = [each.to(DEVICE) for each in next_token_batch(words, batch, tokens)]
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-5, **(how or {"fused": True}))
        size = sum(each.numel() for each in self.model.parameters())
        self.name = f"GPT, {size / 1e6:.0f} million, {batch}×{tokens}"

    def step(self) -> None:
        with torch.autocast(DEVICE, torch.bfloat16):
            loss = F.cross_entropy(self.model(self.batch[0]), self.batch[1])
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def plain(self) -> contextlib.AbstractContextManager[Step]:
        return contextlib.nullcontext(self.step)


def trainings() -> Iterator[Training]:
    sizes = [(64, 2, 2, 16)] if REHEARSAL else [(256, 6, 8, 128), (768, 12, 8, 512)]
    for size in sizes:
        yield Training(*size)


def within(training: Training, block: Callable[[], Any]) -> Way:
    """Return steps inside of a block."""

    @contextlib.contextmanager
    def way() -> Iterator[Step]:
        with block():
            yield training.step

    return way


def recorded(training: Training, runs: Iterator[str], **options: Any) -> Way:
    """Return steps that are recorded, each time into a new run."""

    @contextlib.contextmanager
    def way() -> Iterator[Step]:
        with bs.record(training.model, training.optimizer, next(runs), **options) as rec:
            yield training.step
            finished()
            rec.disarm()

    return way


def released(training: Training, bucket: str | int) -> Way:
    """Return steps inside of the backward pass."""

    @contextlib.contextmanager
    def way() -> Iterator[Step]:
        held = bs.release(training.optimizer, bucket=bucket)
        yield training.step
        held.remove()

    return way


def statistics_of_tensors() -> None:
    """The Triton kernel, PyTorch's operations, and reading the memory once."""
    table = simple_table(
        "float32 elements",
        *("read once, µs", "measure, µs", "+ histogram, µs", "until it returns, µs", "PyTorch's operations, µs"),
        title="Statistics of a list of tensors on the device",
    )

    @contextlib.contextmanager
    def by_operations(tensors: list[torch.Tensor]) -> Iterator[Step]:
        kept, triton_launch.DEVICES = triton_launch.DEVICES, ()
        try:
            yield lambda: measure(tensors) and None
        finally:
            triton_launch.DEVICES = kept

    for number, elements in ((1, 1000), (1, 100_000), (1, 10_000_000), (1, 100_000_000), (200, 1000)):
        if REHEARSAL and elements > 100_000:
            continue
        tensors = [torch.randn(elements, device=DEVICE) for _ in range(number)]

        def way(call: Callable[[list[torch.Tensor]], Any], given: list[torch.Tensor] = tensors) -> Way:
            return lambda: contextlib.nullcontext(lambda: call(given) and None)

        found = in_turn(
            {
                "read": way(lambda given: [each.sum() for each in given]),
                "measure": way(lambda given: measure(given, histogram=False)),
                "histogram": way(measure),
                "operations": lambda given=tensors: by_operations(given),
            },
            times=5,
        )
        table.add_row(
            f"{number} × {elements:,}",
            *(f"{found[name][0] * 1e6:,.0f}" for name in ("read", "measure", "histogram")),
            f"{found['histogram'][1] * 1e6:,.0f}",
            f"{found['operations'][0] * 1e6:,.0f}",
        )
    report(table)


def recording() -> None:
    """Steps of a training that is recorded."""
    table = simple_table(
        "training step", "plain, ms", "recorded", "no histograms", "every 10th", "+ update, output_grad", title=
        "How much longer a recorded step takes"
    )  # fmt: skip
    waiting = simple_table("training step", "plain, ms", "recorded, ms", title="Until the step's calls return")
    ratios = []
    for training in trainings():
        with tempfile.TemporaryDirectory() as folder:
            runs = (f"{folder}/{number}" for number in count())
            more = (*("input", "output", "weight", "grad", "state"), "update", "output_grad")
            found = in_turn(
                {
                    "plain": training.plain,
                    "recorded": recorded(training, runs),
                    "no histograms": recorded(training, runs, histograms=False),
                    "every 10th": recorded(training, runs, every=10),
                    "more": recorded(training, runs, taps=more),
                },
                times=10,
            )
        ratios.append(found["recorded"][2])
        shares = [f"{found[name][2]:.2f}" for name in found if name != "plain"]
        table.add_row(training.name, f"{found['plain'][0] * 1e3:.1f}", *shares)
        waiting.add_row(training.name, *(f"{found[name][1] * 1e3:.1f}" for name in ("plain", "recorded")))
    report(table, waiting, verdict(ratios[-1] <= 1.3, f"the large training in under 1.3 times: {ratios[-1]:.2f}"))


def watching() -> None:
    """Steps under a watch, and while NaN origins are looked for."""
    ways = ("calls", "lines", "exact", "exact, nonfinite", "anomaly mode")
    table = simple_table("training step", "plain, ms", *ways, title="How much longer a watched step takes")
    for training in trainings():
        found = in_turn(
            {
                "plain": training.plain,
                **{
                    level: within(training, lambda level=level: bs.watch(level=level))
                    for level in ("calls", "lines", "exact")
                },
                "exact, nonfinite": within(training, lambda: bs.watch(nonfinite=True)),
                "anomaly mode": within(training, torch.autograd.detect_anomaly),
            }
        )
        table.add_row(training.name, f"{found['plain'][0] * 1e3:.1f}", *(f"{found[way][2]:.2f}" for way in ways))
    report(table)


def peak_of(step: Step) -> int:
    """Return the most bytes of a step above those that are there before it."""
    if REHEARSAL:
        with bs.measure_memory() as measured:
            step()
        return measured.peak - measured.start
    finished()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step()
    finished()
    return torch.cuda.max_memory_allocated() - before


def release() -> None:
    """Steps inside of the backward pass: time and peak."""
    size = (64, 2, 2, 16) if REHEARSAL else (768, 12, 1, 64)
    for how in ({"fused": True}, {"foreach": True}):
        training = Training(*size, **how)

        ways: dict[str, Way] = {
            "ordinary": training.plain,
            "released": released(training, "auto"),
            "released, 64 MB": released(training, "64MB"),
            "released, 16 MB": released(training, "16MB"),
            "released, per parameter": released(training, 0),
        }
        training.step()
        found = in_turn(ways)
        table = simple_table(
            f"{training.name}, AdamW {next(iter(how))}", "ms a step", "ratio", "peak MB", title="Gradient release"
        )
        for name, way in ways.items():
            with way() as step:
                step()
                peak = peak_of(step)
            table.add_row(name, f"{found[name][0] * 1e3:.2f}", f"{found[name][2]:.3f}", f"{peak / MIB:.1f}")
        report(table)


def forecasts() -> None:
    """What was forecast, beside what the caching allocator then said."""
    table = simple_table(
        *("training step", "allocated MB", "forecast MB", "error", "reserved MB", "error", "workspaces"),
        title="Peak of a step on the device",
    )
    worst = 0.0
    x = torch.randn(64, 64, device=DEVICE, requires_grad=True)
    for dtype in (torch.float32, torch.bfloat16):  # what the libraries keep is no step's
        (x.to(dtype) @ x.to(dtype)).float().sum().backward()
    del x
    for name, make in CASES.items():
        torch.manual_seed(0)
        if not REHEARSAL:
            gc.collect()
            finished()
            torch.cuda.empty_cache()
            start, held = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
        case = make()
        case.model.to(DEVICE)
        batch = tuple(each.to(DEVICE) for each in case.batch)
        optimizer = case.optimizer(case.model.parameters())
        options = {"autocast": case.autocast, "release": case.release, "device": "cuda"}
        forecast = bs.forecast(case.model, batch, optimizer, variants=False, **options)
        foretold = replay(requests(forecast.memory.history))
        if case.release is not None:
            bs.release(optimizer, bucket=case.release)

        def step(
            case: Any = case, batch: tuple[torch.Tensor, ...] = batch, optimizer: torch.optim.Optimizer = optimizer
        ) -> None:
            with torch.autocast(DEVICE, case.autocast, enabled=case.autocast is not None):
                loss = case.model(*batch)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        step()
        if REHEARSAL:
            table.add_row(
                name, "", f"{foretold.peak_allocated / MIB:.1f}", "", "", "", "of cuDNN" * bool(forecast.notes)
            )
            continue
        finished()
        torch.cuda.reset_peak_memory_stats()
        step()
        finished()
        allocated, reserved = torch.cuda.max_memory_allocated() - start, torch.cuda.max_memory_reserved() - held
        if not forecast.notes:  # else cuDNN takes workspaces, which a forecast leaves out and says so
            worst = max(worst, abs(foretold.peak_allocated / allocated - 1))
        table.add_row(
            name,
            f"{allocated / MIB:.1f}",
            f"{foretold.peak_allocated / MIB:.1f}",
            f"{foretold.peak_allocated / allocated - 1:+.2%}",
            f"{reserved / MIB:.0f}",
            f"{foretold.peak_reserved / reserved - 1:+.1%}",
            "of cuDNN" * bool(forecast.notes),
        )
        del case, batch, optimizer, step
    report(table)
    if not REHEARSAL:
        report(verdict(worst <= 0.02, f"within 2 % of what is allocated, but for workspaces: {worst:.2%} at worst"))


def profiles() -> None:
    """A profiled step, and one whose memory is measured."""
    ways = ("torch.profiler", "profile", "measure_memory")
    table = simple_table("training step", "plain, ms", *ways, title="A step while it is profiled, times the plain one")
    for training in trainings():
        found = in_turn(
            {
                "plain": training.plain,
                "torch.profiler": within(training, torch.profiler.profile),
                "profile": within(training, lambda training=training: bs.profile(training.model)),
                "measure_memory": within(training, lambda training=training: bs.measure_memory(training.model)),
            }
        )
        table.add_row(training.name, f"{found['plain'][0] * 1e3:.1f}", *(f"{found[way][2]:.2f}" for way in ways))
    report(table)


def tracing() -> None:
    """Steps of which every operation is traced."""
    table = simple_table("training step", "plain, ms", "traced", title="How much longer a traced step takes")
    for training in trainings():
        with tempfile.TemporaryDirectory() as folder:
            paths = (f"{folder}/{number}" for number in count())
            found = in_turn(
                {
                    "plain": training.plain,
                    "traced": within(training, lambda paths=paths: bs.trace(next(paths), steps=range(10))),
                }
            )
        table.add_row(training.name, f"{found['plain'][0] * 1e3:.1f}", f"{found['traced'][2]:.2f}")
    report(table)


PARTS: dict[str, Callable[[], None]] = {
    "recording": recording,
    "release": release,
    "forecast": forecasts,
    "trace": tracing,
    "statistics": statistics_of_tensors,
    "watch": watching,
    "profile": profiles,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all if none is given")
    parser.add_argument("--seconds", type=float, help="begin no further part after so long: time on a device may end")
    given = parser.parse_args()
    parts = given.parts or list(PARTS)
    if not REHEARSAL and not torch.cuda.is_available():
        parser.error("no CUDA device: NOT TRIED. BACKSIGHT_DEVICE=cpu rehearses it")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    warnings.simplefilter("ignore")
    if REHEARSAL:
        torch.set_num_threads(1)
    name = "the CPU, a rehearsal" if REHEARSAL else torch.cuda.get_device_name()
    way = (
        "the Triton kernel"
        if not REHEARSAL and triton_launch.kernel()
        else f"the C kernel: {native.kernel is not None}"
    )
    report(f"device: {name}; statistics by {way}")
    began = time.monotonic()
    for part in parts:
        if given.seconds is not None and time.monotonic() - began > given.seconds:
            report(f"not measured: {part}")
            continue
        PARTS[part]()
        gc.collect()


if __name__ == "__main__":
    main()
