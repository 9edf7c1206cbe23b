"""What gradient release saves where gradients are averaged over ranks: the most a process grows by in a step.

    python bench/release_ranks.py          # two ranks on this machine (gloo), some 10 runs; Linux

128 MB of parameters, AdamW, DDP's buckets at 8 MB. The figure is the peak of the resident memory above the start of the
training, and so includes 256 MB of optimizer state. glibc is told to give freed tensors back to the system, or it keeps
them and all ways look alike. Steps are timed too, in single runs: no more than an indication.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from _measure import report, simple_table
from torch import nn
from torch.multiprocessing.spawn import spawn
from torch.nn.parallel import DistributedDataParallel

import backsight as bs

WAYS = ("DDP", "DDP, bucket view", "release(ddp=)", "release(ddp=), bucket view", "release(process_group=)")
IMPLEMENTATIONS = ("fused", "foreach")
STEPS = 6
WARM = 3
"""Steps before the peak is taken: DDP arranges its buckets in the first ones."""


def resident(field: str) -> float:
    """Return a figure of this process in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field))


def train(rank: int, folder: str, way: str, implementation: str) -> None:
    """Train on one of two ranks; the first writes down its peak in MB and its best step in seconds."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    torch.manual_seed(0)
    model: Any = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(32)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, **{implementation: True})
    if way == "release(process_group=)":
        bs.release(optimizer, bucket="8MB", process_group=dist.group.WORLD)
    else:
        model = DistributedDataParallel(model, bucket_cap_mb=8, gradient_as_bucket_view="view" in way)
        if way.startswith("release"):
            bs.release(optimizer, ddp=model)
    x, times, before = torch.randn(4, 1024), [], resident("VmRSS")
    for step in range(STEPS):
        if step == WARM:
            Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
        begun = time.perf_counter()
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        times.append(time.perf_counter() - begun)
    if rank == 0:
        Path(folder, "said").write_text(f"{resident('VmHWM') - before} {min(times[WARM:])}")
    dist.barrier()
    dist.destroy_process_group()


def measured(way: str, implementation: str) -> str:
    """Return the peak and the time of one way, as text."""
    with tempfile.TemporaryDirectory() as folder:
        spawn(train, (folder, way, implementation), nprocs=2)
        peak, seconds = map(float, Path(folder, "said").read_text().split())
    return f"{peak:.0f} MB, {seconds * 1e3:.0f} ms"


def main() -> None:
    if sys.platform != "linux":
        sys.exit("the peak of a process is read from /proc, which only Linux has")
    os.environ["MALLOC_MMAP_THRESHOLD_"] = "65536"  # of the ranks, which start anew
    table = simple_table("two ranks, 128 MB of parameters", *IMPLEMENTATIONS, title="")
    for way in WAYS:
        table.add_row(way, *(measured(way, implementation) for implementation in IMPLEMENTATIONS))
    report(table)


if __name__ == "__main__":
    main()
