"""`backsight view`: what it says on the terminal."""

from __future__ import annotations

import sys

from backsight.runs import RunError, RunWarning
from backsight.runs.opening import holds_a_trace
from backsight.tables.named import folder_of
from backsight.tables.printing import warnings_as_lines
from backsight.text import size
from backsight.text.console import Console
from backsight.text.rich import Text
from backsight.viewer.library import Library
from backsight.viewer.notebook import view
from backsight.viewer.serving import NotInstalled, serve


def view_runs(named: str, port: int, open_browser: bool) -> int:
    """Show runs until Ctrl-C; return the exit status: 2 if there is nothing to show, or no way to."""
    out = Console(soft_wrap=True)
    try:
        path = folder_of(named)
        count = len(Library(path).names())
        what = f"{count:,} run{'s' * (count != 1)} in {path}" if count else f"no run in {path} yet"

        def ready(url: str) -> None:
            out.print(Text.assemble(("backsight view", "bold"), f"  {what}"))
            if not count and path.is_dir() and any(map(holds_a_trace, path.iterdir())):
                out.print(f"  it holds traces: compare two of them with `backsight diff {path}/A {path}/B`")
            out.print(Text(f"  {url}", "cyan"))
            out.print(Text("  for this machine only; Ctrl-C ends it", "dim"))
            sys.stdout.flush()

        serve(path, port=port, open_browser=open_browser, ready=ready)
    except (RunError, NotInstalled, OSError) as error:
        return _failed(error)
    out.print("")
    return 0


def write_report(named: str, target: str) -> int:
    """Write a run, the newest of a folder, into one HTML file; return the exit status."""
    out = Console(soft_wrap=True)
    try:
        with warnings_as_lines(RunWarning, _complain):
            shown = view(folder_of(named))
            with out.status(Text(f"reading {shown.run.name}")):
                written = shown.save(target)
    except (RunError, OSError, ValueError) as error:
        return _failed(error)
    out.print(Text.assemble(f"{shown.run.path} is in ", (str(written), "bold"), f" ({size(written.stat().st_size)})."))
    return 0


def _failed(error: Exception) -> int:
    _complain(str(error))
    return 2


def _complain(why: str) -> None:
    out = Console(stderr=True, soft_wrap=True)
    out.print(Text.assemble(("backsight:", "bold red"), f" {why}"))
