"""Runs in a notebook: the page of the report, in a frame, so that a saved notebook still shows it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from html import escape
from pathlib import Path

from backsight.runs import Run, RunNotFound, open_run, runs_in
from backsight.runs.opening import holds_a_trace
from backsight.viewer.report import report_page, to_report

HEIGHT = 720
"""Pixels of a view in a notebook."""


@dataclass(frozen=True)
class View:
    """A run as a notebook shows it.

    ```python
    bs.view("runs/first")                 # at the end of a cell
    bs.view("runs/first").save("first.html")
    ```
    """

    run: Run
    height: int = HEIGHT

    def html(self) -> str:
        """Return the whole page, which needs nothing else."""
        return report_page(self.run)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page to a file; see `Run.to_report`."""
        return to_report(self.run, path)

    def _repr_html_(self) -> str:
        # A frame of its own: its style and its script do not touch the notebook, nor those of the notebook it.
        return (
            f'<iframe srcdoc="{escape(self.html())}" sandbox="allow-scripts" title="{escape(self.run.name)}"'
            f' width="100%" height="{self.height}" style="border:1px solid #8884;border-radius:6px"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<View of {self.run!r}: displays in a notebook; elsewhere, use .save('view.html') or backsight view>"


def view(run: Run | str | os.PathLike[str], *, height: int = HEIGHT) -> View:
    """Show a run in a notebook: heatmaps, findings and tensors, in the notebook's own file.

    run: a run, its folder, or a folder with runs in it, of which the newest is shown.

    Raises:
        RunNotFound: if there is no run.
        NotARun: if it is a trace.
        ValueError: if the height is less than 100 pixels.
    """
    if height < 100:
        raise ValueError(f"height must be at least 100 pixels, not {height}.")
    if isinstance(run, Run):
        return View(run, height)
    path = Path(run)
    if path.is_dir() and not any(path.glob("rank-*")) and not holds_a_trace(path):
        found = runs_in(path)
        if not found:
            raise RunNotFound(f"there is no run in {path}. Record one: rec = bs.record(model, optimizer).")
        return View(found[-1], height)
    return View(open_run(path), height)
