"""Run the benchmarks that docs/performance.md shows, and keep what they say.

    python bench/performance.py                  # all of them: about an hour of one processor
    python bench/performance.py capture naming   # these
    python bench/performance.py device           # only where it is named: it needs a GPU
    python bench/performance.py release_optimizers    # the same: it wants the packages that it is about
    python bench/performance.py store            # the same: the stores that ours is compared with
    python bench/performance.py programs         # the same: an environment of its own, from the package index
    python docs/pages.py                         # then fills in the pages

Each writes `bench/results/NAME.json`, one object: `command`, `date`, `machine` and `versions` say what was measured
where, `parts` is what `_measure.report` has printed, in order: tables, `{"title", "columns", "rows"}`, all text as on
the terminal, and lines, `{"note"}`. `spread` tells how far half of the measurements of one thing lie from their median,
as a share of it: typically, and at worst.

A figure that was taken beside other work is none: each benchmark waits until the machine is quiet, and what was
measured while others used more than a third of a core is not kept. Those without a time in them are kept as they are.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
RESULTS = HERE / "results"

COMMANDS: dict[str, tuple[str, ...]] = {
    "imports": (),
    "capture": ("--limit", "3"),
    "naming": (),
    "explain": (),
    "watch": (),
    "running": (),
    "nonfinite": (),
    "live_graphs": (),
    "drawing": ("--limit", "20"),
    "verify": (),
    "parting": (),
    "tracing": (),
    "recording": ("--rounds", "5", "--threads", "1"),
    "tensor_statistics": (),
    "release": ("--models", "perceptron", "layers", "--rounds", "9"),
    "measuring": (),
    "forecast": (),
    "profiling": (),
}
"""What each benchmark is given, so that all together take an hour and not a day."""

ON_A_DEVICE: dict[str, tuple[str, ...]] = {"device": ("--seconds", "170")}
"""Those that want a GPU, and are run where they are named."""

WITH_PEERS: dict[str, tuple[str, ...]] = {
    "release_optimizers": (),
    "store": ("--steps", "200000"),
    "programs": ("--jobs", "2"),
}
"""Those that are about other packages, and are run where they are named."""

WITHOUT_TIMES = frozenset({"programs"})
"""Those that compare what is said and computed, which is the same beside other work."""

PEERS = (
    *("torchviz", "torchview", "torchlens", "torchvista", "wandb", "tensorboard", "torch-optimi", "lomo-optim"),
    *("pytorch_optimizer", "torch-optimizer", "timm", "schedulefree", "prodigyopt", "dadaptation", "heavyball"),
    *("pyarrow", "duckdb", "pylance", "zarr", "h5py"),
    *("came-pytorch", "galore-torch", "bitsandbytes", "torchao", "lion-pytorch", "adabelief-pytorch", "muon-optimizer"),
)


QUIET = 0.3
"""Cores that others may use, on average, while something is measured."""

PATIENCE = 1_800
"""Seconds that a benchmark waits for a quiet machine."""


class Busy(Exception):
    """Others used the processors while something was measured."""


class Others:
    """Tells how many cores others have used since this was made."""

    def __init__(self) -> None:
        self._began, self._all, self._own = time.monotonic(), _all(), _own()

    def cores(self) -> float | None:
        """Return the average; None where the system does not tell."""
        if self._all is None or (now := _all()) is None:
            return None
        return max(0.0, (now - self._all) - (_own() - self._own)) / (time.monotonic() - self._began)


def _all() -> float | None:
    """Return the seconds that all processors have worked, or were kept from working by another machine."""
    stat = Path("/proc/stat")
    if not stat.exists():
        return None
    user, nice, system, _, _, irq, soft_irq, steal, *_ = map(int, stat.read_text().splitlines()[0].split()[1:])
    ticks: int = os.sysconf("SC_CLK_TCK")
    return (user + nice + system + irq + soft_irq + steal) / ticks


def _own() -> float:
    """Return the seconds that this process and those that it has waited for have worked."""
    return sum(os.times()[:4])


def wait_until_quiet(seconds: float = 5.0) -> None:
    """Wait until others use little; `Busy` if that takes too long."""
    until = time.monotonic() + PATIENCE
    while True:
        others = Others()
        time.sleep(seconds)
        used = others.cores()
        if used is None or used <= QUIET:
            return
        if time.monotonic() > until:
            raise Busy(
                f"others use {used:.1f} cores of this machine, for half an hour now: end them, and run it again."
            )
        print(f"others use {used:.1f} cores: waiting until it is {QUIET} at most", flush=True)
        seconds = 30.0


def measured(name: str) -> dict[str, object]:
    """Run a benchmark on a quiet machine, and return what it said, with where and when; `Busy` if it was not quiet."""
    timed = name not in WITHOUT_TIMES
    if timed:
        wait_until_quiet()
    others = Others()
    words = ["bench/" + name + ".py", *{**COMMANDS, **ON_A_DEVICE, **WITH_PEERS}[name]]
    began = datetime.datetime.now(datetime.timezone.utc)
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder, "kept.jsonl")
        subprocess.run(
            [sys.executable, *words], cwd=HERE.parent, env={**os.environ, "BENCH_KEPT": str(kept)}, check=True
        )
        lines = [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()]
    used = others.cores()
    if timed and used is not None and used > QUIET:
        raise Busy(f"others used {used:.1f} cores while {name} was measured: nothing is kept of it. Run it again.")
    return {
        "command": " ".join(["python", *words]),
        "date": began.date().isoformat(),
        "machine": {
            "processor": processor(),
            **({"device": device()} if name in ON_A_DEVICE else {}),
            "cores": os.cpu_count(),
            "system": platform.system(),
            "others": None if used is None else round(used, 2),
        },
        "versions": {"python": platform.python_version(), **versions("torch", "backsight"), **versions(*PEERS)},
        **{name: value for line in lines for name, value in line.items() if name == "spread"},
        "parts": [line for line in lines if "spread" not in line],
    }


def versions(*packages: str) -> dict[str, str]:
    """Return the versions of the packages that are installed."""
    found = {}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def processor() -> str:
    """Return what the processor calls itself."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.processor() or platform.machine())


def device() -> str:
    """Return what the GPU calls itself."""
    import torch

    return torch.cuda.get_device_name()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(COMMANDS), metavar="NAME", help="all, if none is given")
    names = parser.parse_args().names
    there = {**COMMANDS, **ON_A_DEVICE, **WITH_PEERS}
    unknown = [name for name in names if name not in there]
    if unknown:
        parser.error(f"no benchmark of the page: {', '.join(unknown)}; there are {', '.join(there)}")
    RESULTS.mkdir(exist_ok=True)
    for name in names:
        print(f"\n{name}\n")
        try:
            text = json.dumps(measured(name), ensure_ascii=False, indent=1)
        except Busy as busy:
            parser.exit(1, f"{busy}\n")
        (RESULTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
