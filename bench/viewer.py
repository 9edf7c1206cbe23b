"""The viewer over a run of 300 tensors and a million steps, asked over HTTP and painted in Chromium.

    python bench/viewer.py                    # some minutes, and 5 GB of disk for a while; removed at the end
    python bench/viewer.py --steps 50000      # a quick look
    python bench/viewer.py --keep /data/run   # into this folder, kept and used again

The store is what a recording of so many steps leaves behind: sorted segments of about the size to which they are
merged. One tensor has histograms, and every step a mark. `backsight view` runs as a process of its own, and its
memory is the most that this process ever held. Times are medians; the first paint counts from the request of the
page to the frame that shows the heatmap, by a browser that has not seen the run, of viewers that have just started
("first") and of one that was asked before.
"""

from __future__ import annotations

import argparse
import http.client
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from _long_run import BYTES, TENSORS, make
from _measure import WIDTH
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

REFRESH = 2.5
"""Seconds between two refreshes of a page that follows a training: REFRESH of page/app.js."""

PATIENCE = 20
"""So many times as long as an answer took a page waits at least before it asks again."""


class Viewer:
    """`backsight view` in a process of its own, and questions to it."""

    def __init__(self, path: Path):
        command = [sys.executable, "-u", "-m", "backsight", "view", str(path)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.url = next(line.strip() for line in self._process.stdout if "http://" in line)
        parts = urlsplit(self.url)
        self._port, self._token = parts.port, parts.query.partition("=")[2]

    def ask(self, path: str, **given: object) -> float:
        """Ask, and return the milliseconds to the last byte of the answer."""
        query = f"?{urlencode(given)}" if given else ""
        start = time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=600)
        connection.request("GET", f"/api/{path}{query}", headers={"x-backsight-token": self._token})
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        if answer.status != 200:
            raise RuntimeError(body.decode())
        return (time.perf_counter() - start) * 1e3

    @property
    def pid(self) -> int:
        return self._process.pid

    def megabytes(self) -> float:
        """The most memory that the process has held; 0 where the system does not say."""
        try:
            text = Path(f"/proc/{self._process.pid}/status").read_text()
        except OSError:
            return 0.0
        return int(text.partition("VmHWM:")[2].split()[0]) / 1024

    def processor_seconds(self) -> float:
        return processor_seconds(self._process.pid)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()


@contextmanager
def viewing(path: Path) -> Iterator[Viewer]:
    viewer = Viewer(path)
    try:
        yield viewer
    finally:
        viewer.close()


def painted(viewer: Viewer, run: str, rounds: int) -> list[float]:
    """Return the milliseconds to the first paint of the heatmap, of a new browser context each time."""
    from playwright.sync_api import sync_playwright

    noted = """new MutationObserver((_, seen) => {
      if (!document.querySelector(".cells canvas")) return;
      seen.disconnect();
      requestAnimationFrame(() => requestAnimationFrame(() => { window.painted = performance.now(); }));
    }).observe(document, { childList: true, subtree: true });"""
    found = []
    with sync_playwright() as play:
        program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
        browser = play.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for _ in range(rounds):
            page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
            page.add_init_script(noted)
            page.goto(f"{viewer.url}#/{quote(run)}/heatmap?kind=grad&stat=l2")
            page.locator(".cells canvas").wait_for(timeout=120_000)
            page.wait_for_timeout(200)
            found.append(page.evaluate("window.painted"))
            page.context.close()
        browser.close()
    return found


def questions(run: str, steps: int) -> dict[str, tuple[str, dict[str, object]]]:
    """What a page asks, by what it is called in the table."""
    middle = steps // 2
    this = {"run": run, "tensor": "layers.3.weight", "kind": "grad"}
    asked = {"run": run}
    return {
        "heatmap": ("ask/heatmap", {**asked, "kind": "grad", "stat": "l2", "columns": 600}),
        "heatmap of a tenth": (
            "ask/heatmap",
            {**asked, "kind": "grad", "stat": "l2", "first": middle, "last": middle + steps // 10, "columns": 600},
        ),
        "lines of a tensor": ("ask/lines", {**this, "columns": 600}),
        "lines of a tenth": ("ask/lines", {**this, "columns": 600, "first": middle, "last": middle + steps // 10}),
        "lines of 500 steps": ("ask/lines", {**this, "columns": 600, "first": middle, "last": middle + 500}),
        "rows of a tensor": ("ask/rows", {**this, "first": middle, "last": middle + 24}),
        "magnitudes": ("ask/histograms", {**asked, "tensor": "layers.0.weight", "kind": "weight", "columns": 240}),
        "marks": ("ask/marks", asked),
        "about": ("ask/about", asked),
        "list of runs": ("runs", {}),
        "findings": ("ask/findings", asked),
    }


def train(folder: Path) -> None:
    """Train a small network and record every step, for as long as it is let; the number of steps is in a file."""
    import torch
    from torch import nn

    import backsight as bs

    torch.set_num_threads(1)
    model = nn.Sequential(*(layer for _ in range(12) for layer in (nn.Linear(256, 256), nn.ReLU())))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    data = torch.randn(64, 256)
    counter = folder.with_suffix(".count").open("w")
    with bs.record(model, optimizer, folder) as rec:
        for step in range(10**9):
            loss = model(data).square().mean()
            rec.mark(loss=loss.item())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            counter.seek(0)
            counter.write(f"{step + 1} ")
            counter.flush()
            if step == 100:
                print("running", flush=True)


def followed(folder: Path, pairs: int, seconds: float = 2 * REFRESH) -> tuple[tuple[float, float, float], float]:
    """Train, looked at and not in turn; return what looking adds to a step, and the viewer's share of a processor.

    Both in percent. The first is of the processor time of the training, which other programs change less than the time
    on the clock: the median of all pairs, and the bounds between which it lies with a confidence of 95 %. The training
    has a processor to itself, as far as this program decides that, and the viewer the others.
    """
    program = [sys.executable, __file__, "--train", str(folder / "live")]
    training = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)
    try:
        assert training.stdout is not None
        training.stdout.readline()
        with viewing(folder / "live") as viewer:
            _apart(training.pid, viewer.pid)
            _looked(viewer, 0.0)
            added, used = [], viewer.processor_seconds()
            ways = (lambda: time.sleep(seconds), lambda: _looked(viewer, seconds))
            for pair in range(pairs):  # first the one, then the other: what comes second has no better or worse time
                order = (0, 1) if pair % 2 == 0 else (1, 0)
                spent = {way: _a_step(training.pid, folder / "live.count", ways[way]) for way in order}
                added.append(100 * (spent[1] / spent[0] - 1))
            share = (viewer.processor_seconds() - used) / (pairs * seconds)
        return _median(added), 100 * share
    finally:
        training.terminate()
        training.wait()


def _apart(training: int, viewer: int) -> None:
    """Keep the training on one processor and the viewer on the others, where the system lets us."""
    if hasattr(os, "sched_setaffinity") and len(every := sorted(os.sched_getaffinity(0))) > 1:
        for process, mine in ((training, every[-1:]), (viewer, every[:-1])):
            for thread in Path(f"/proc/{process}/task").iterdir():
                os.sched_setaffinity(int(thread.name), mine)


def _median(values: list[float]) -> tuple[float, float, float]:
    """Return the median, and the bounds between which it lies with a confidence of 95 %, by their ranks."""
    held = sorted(values)
    off = round(0.98 * len(held) ** 0.5)
    middle = len(held) // 2
    return statistics.median(held), held[max(0, middle - off)], held[min(len(held) - 1, middle + off)]


def _looked(viewer: Viewer, seconds: float) -> None:
    """Ask what a page asks that follows a training, as often as it does."""
    end = time.monotonic() + seconds
    while True:
        began = time.monotonic()
        viewer.ask("ask/about", run="live")
        viewer.ask("ask/heatmap", run="live", kind="grad", stat="l2", columns=600)
        viewer.ask("ask/marks", run="live")
        now = time.monotonic()
        wait = max(REFRESH, PATIENCE * (now - began))
        if now + wait >= end:
            time.sleep(max(0.0, end - now))
            return
        time.sleep(wait)


def _a_step(process: int, counter: Path, meanwhile: Callable[[], None]) -> float:
    """Return the processor seconds that a step of the training takes meanwhile."""
    used, steps = processor_seconds(process), int(counter.read_text())
    meanwhile()
    return (processor_seconds(process) - used) / (int(counter.read_text()) - steps)


def processor_seconds(process: int) -> float:
    """Return the processor time that a process has had, to the nanosecond where the system tells it."""
    try:
        threads = Path(f"/proc/{process}/task").iterdir()
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9
    except FileNotFoundError:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=60, help="of times with and without a page that follows")
    parser.add_argument("--keep", type=Path, help="make the run here, if it is not there yet, and keep it")
    parser.add_argument("--train", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.train is not None:
        return train(options.train)
    console = Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)
    with tempfile.TemporaryDirectory(prefix="backsight-") as held:
        path = options.keep or Path(held) / "long"
        if not path.exists():
            need = TENSORS * options.steps * BYTES / 1e9
            print(f"Making a run of {TENSORS} tensors and {options.steps:,} steps: some {need:.1f} GB in {path.parent}")
            if shutil.disk_usage(path.parent).free < 1.2e9 * need:
                raise SystemExit(f"There is less room than that; a run of {options.steps // 10:,} steps takes a tenth.")
            start = time.perf_counter()
            make(path, options.steps)
            size = sum(found.stat().st_size for found in path.rglob("*") if found.is_file())
            print(f"  {size / 1e9:.1f} GB in {time.perf_counter() - start:.0f} s")
        table = measured(path, options.steps, options.rounds)
        (added, least, most), share = followed(Path(held), options.pairs)
        table.add_row(
            f"live refresh, of the training's step ({least:+.1f} to {most:+.1f} %)", "", f"{added:+.2f} %", "1 %"
        )
        table.add_row("live refresh, of one processor", "", f"{share:.1f} %", "")
        console.print(table)


def _painted_cold(path: Path) -> float:
    with viewing(path) as viewer:
        return painted(viewer, path.name, 1)[0]


def _anew(given: dict[str, Any], time: int) -> dict[str, Any]:
    """Return the same with fewer columns each time: an answer that was given before may be kept."""
    return {**given, "columns": given["columns"] - time} if "columns" in given else given


def measured(path: Path, steps: int, rounds: int) -> Table:
    table = Table(box=SIMPLE_HEAD, title=f"{TENSORS} tensors, {steps:,} steps", title_justify="left")
    for name in ("", "first", "median", "goal"):
        table.add_column(name, justify="left" if not name else "right")
    cold = statistics.median(_painted_cold(path) for _ in range(rounds))
    with viewing(path) as viewer:
        warm = statistics.median(painted(viewer, path.name, rounds))
        table.add_row("heatmap, first paint", f"{cold:,.0f} ms", f"{warm:,.0f} ms", "300 ms")
        for name, (question, given) in questions(path.name, steps).items():
            first = viewer.ask(question, **_anew(given, 1))
            again = [viewer.ask(question, **_anew(given, 2 + k)) for k in range(1 if first > 3_000 else rounds)]
            goal = "200 ms" if name.startswith(("lines", "rows")) else ""
            table.add_row(name, f"{first:,.0f} ms", f"{statistics.median(again):,.0f} ms", goal)
            print(f"  {name}: {first:,.0f} ms, {viewer.megabytes():,.0f} MB", flush=True)
        table.add_row("memory of the viewer", "", f"{viewer.megabytes():,.0f} MB", "500 MB")
    return table


if __name__ == "__main__":
    main()
