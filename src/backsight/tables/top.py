"""`backsight top`: a run while it is recorded, in the terminal: its numbers, its gradients by depth, its findings."""

from __future__ import annotations

import math
import shlex
import time
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from backsight.runs import Run
from backsight.tables.listing import listed
from backsight.tables.scalars import lines, told
from backsight.tables.step import Row
from backsight.tables.text import ago, number
from backsight.tables.tree import in_order, modules
from backsight.text import printable

if TYPE_CHECKING:
    from backsight.findings import Finding
    from backsight.text.rich import RenderableType, Text

SHADES = " ░▒▓█"
"""From the smallest to the largest: the fewest colours that every terminal has."""

COLORS = ("#2c2a6b", "#2a5583", "#237d8a", "#35a27a", "#8cc152", "#f4e04d")
NOT_FINITE, ZERO = "✗", "0"

ROWS = 12
"""Rows of the heatmap, at most: neighbouring modules share one."""

LEAST_ROWS = 2
FRAME = 6
"""Lines of the screen that are neither numbers, nor rows of the heatmap, nor findings."""

FINDINGS = 4
RARE = 20
"""Looking for findings takes at most one part in so many of the time."""

RECENT = 64
"""Steps over which the pace is told."""


class Top:
    """What is to be seen of a run now.

    ```python
    Top(bs.open_run("runs/first")).screen(80, 24)
    ```
    """

    def __init__(self, run: Run):
        self.run = run
        self._findings: tuple[Finding, ...] | None = None
        self._looked_at = -1
        self._due = 0.0

    def screen(self, width: int, height: int) -> list[RenderableType]:
        """Return the parts of the screen, from top to bottom; what there is no room for is left out."""
        parts: list[RenderableType] = [self._heading(), ""]
        steps = self.run.steps
        if not len(steps):
            return [*parts, "no step has been recorded yet"]
        found, below = told(self.run), self._told(len(steps))
        kept = found[: max(3, (height - FRAME) // 2)]
        latest = "now" if listed(self.run).state == "recording" else "last"
        parts += [lines(kept, width, latest), ""]
        room = height - len(kept) - FRAME - len(below)
        if room >= LEAST_ROWS:
            parts += self._gradients(width, min(ROWS, room))
        return [*parts, *below]

    def _heading(self) -> Text:
        from backsight.text.rich import Text

        about, times = listed(self.run), self.run.times()[1]
        recent = times[-RECENT:]
        took = float(recent[-1] - recent[0]) if len(recent) > 1 else 0.0
        steps = self.run.steps[-len(recent) :]
        pace = f", mean {number((int(steps[-1]) - int(steps[0])) / took)} steps/s" if took > 0 else ""
        lasted = float(times[-1] - times[0]) if len(times) else 0.0
        since = "" if len(times) < 2 else f", {ago(lasted)}" if lasted >= 10 else f", {lasted:.1f} s"
        last = f"step {int(self.run.steps[-1]):,}" if about.steps else "no step"
        last += f" ({about.steps:,} recorded)" if about.steps and about.steps <= int(self.run.steps[-1]) else ""
        return Text.assemble((printable(self.run.name), "bold"), (f"  {about.state}, {last}{since}{pace}", "dim"))

    def _gradients(self, width: int, rows: int) -> list[RenderableType]:
        """Return the norm of the gradients by depth over the steps, one scale for all."""
        from backsight.text.rich import Text

        names, values, bad = self._by_depth(rows, width)
        if not names:
            return []
        names = _without_common(names)
        wide = min(22, max(map(len, names)))
        positive = values[np.isfinite(values) & (values > 0)]
        low, high = (np.log(np.quantile(positive, (0.005, 0.995)))) if len(positive) else (0.0, 1.0)
        ends = f"{number(math.exp(low))} {SHADES[1:]} {number(math.exp(high))}"
        blank = "; blank: not recorded" if np.isnan(values).all(axis=0).any() else ""
        steps = f"steps {int(self.run.steps[0]):,} to {int(self.run.steps[-1]):,}"
        parts: list[RenderableType] = [Text(f"gradient norms, {steps}: {ends}{blank}", "dim", no_wrap=True)]
        for name, row, wrong in zip(names, values, bad, strict=True):
            text = Text(f"{_cut(name, wide):<{wide}} ", no_wrap=True)
            for value, lost in zip(row.tolist(), wrong.tolist(), strict=True):
                text.append(*_shade(value, bool(lost), float(low), float(high)))
            parts.append(text)
        return [*parts, ""]

    def _by_depth(self, rows: int, width: int) -> tuple[list[str], NDArray[np.float64], NDArray[np.bool_]]:
        """Return names, norms and what is not finite of neighbouring modules, in the order of the forward pass."""
        if not any(each.kind == "grad" for each in self.run.tensors):
            return [], np.empty((0, 0)), np.empty((0, 0), bool)
        found = self.run.heatmap("norm", "grad", columns=max(8, width - 24))
        held = [Row(each.name, each.kind, each.module, each.shape, 1, {}, ()) for each in self.run.tensors]
        order = [row.tensor for module in in_order(modules(self.run.tree, held)) for row in module.rows]
        place = {name: k for k, (name, _) in enumerate(found.tensors)}
        at = [place[name] for name in dict.fromkeys(order) if name in place]
        if not at or not len(found.steps):
            return [], np.empty((0, 0)), np.empty((0, 0), bool)
        parts = [part for part in np.array_split(np.array(at), min(rows, len(at))) if len(part)]
        with np.errstate(invalid="ignore"):
            squares = [
                np.where(np.isnan(found.values[p]).all(0), np.nan, np.nansum(found.values[p] ** 2, 0)) for p in parts
            ]
        names = [_owner(found.tensors[int(part[0])][0], found.tensors[int(part[-1])][0]) for part in parts]
        return names, np.sqrt(np.stack(squares)), np.stack([found.nonfinite[part].any(axis=0) for part in parts])

    def _told(self, steps: int) -> list[RenderableType]:
        """Return the findings; they are looked for again when there are more steps, and enough time has passed."""
        from backsight.text.rich import Text

        began = time.monotonic()
        if steps != self._looked_at and began >= self._due:
            self._findings = tuple(self.run.audit())
            self._looked_at, took = steps, time.monotonic() - began
            self._due = began + RARE * took
        if not self._findings:
            return [Text("nothing found so far", "dim")]
        styles = {"error": "bold red", "warning": "yellow"}
        told_ = [
            Text.assemble((f"{each.code} ", styles.get(each.severity, "dim")), printable(each.title), no_wrap=True)
            for each in self._findings[:FINDINGS]
        ]
        for each in told_:
            each.overflow = "ellipsis"
        more = f"and {len(self._findings) - FINDINGS} more; " if len(self._findings) > FINDINGS else ""
        audit = f"{more}with evidence and fixes: backsight runs audit {shlex.quote(str(self.run.path))}"
        return [*told_, Text(printable(audit), "dim")]


def _shade(value: float, lost: bool, low: float, high: float) -> tuple[str, str]:
    if lost:
        return NOT_FINITE, "bold red"
    if math.isnan(value):
        return " ", ""
    if value == 0:
        return ZERO, "dim"
    share = min(1.0, max(0.0, (math.log(value) - low) / (high - low))) if high > low else 0.5
    shades = SHADES[1:]
    return shades[min(len(shades) - 1, int(share * len(shades)))], COLORS[
        min(len(COLORS) - 1, int(share * len(COLORS)))
    ]


def _owner(first: str, last: str) -> str:
    """Return what to call a row of neighbouring tensors: the first of them, or how far they go."""
    if first == last:
        return printable(first)
    head, tail = first.rpartition(".")[0] or first, last.rpartition(".")[0] or last
    return printable(head if head == tail else f"{head} – {tail}")


def _without_common(names: list[str]) -> list[str]:
    """Return names of modules without the path that all of them are below: `h.1.mlp` of `transformer.h.1.mlp`."""
    rows = [[end.split(".") for end in name.split(" – ")] for name in names]
    paths = [path for row in rows for path in row]
    shared = 0
    while len(names) > 1 and all(len(path) > shared + 1 and path[shared] == paths[0][shared] for path in paths):
        shared += 1
    return [" – ".join(".".join(path[shared:]) for path in row) for row in rows]


def _cut(name: str, room: int) -> str:
    """Return the end of a name that is too long, where those of modules differ."""
    return name if len(name) <= room else f"…{name[len(name) - room + 1 :]}"


def watched(run: Run, seconds: float, once: bool) -> None:
    """Show a run until Ctrl-C; once where nobody looks on, or the run has ended."""
    from backsight.tables.printing import output, show

    top, console = Top(run), output()
    if once or not console.is_terminal:
        show(*top.screen(console.width, 48))
        return
    from backsight.text.rich import Group, live

    with live(console) as screen:
        try:
            while True:
                began = time.monotonic()
                screen.update(Group(*top.screen(console.width, console.height)), refresh=True)
                # A run that takes long to read is read more rarely: looking on costs little of a processor.
                time.sleep(max(seconds, RARE * (time.monotonic() - began)))
        except KeyboardInterrupt:
            pass
    show(*top.screen(console.width, console.height))
