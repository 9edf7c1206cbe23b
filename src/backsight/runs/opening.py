"""Finding runs: one by its path, all of a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from backsight.blame import warn
from backsight.runs import places
from backsight.runs.errors import NotARun, RunError, RunNotFound, RunWarning
from backsight.runs.run import Run
from backsight.text import meant

RUNS = "runs"
"""The folder that runs are looked for in, and recorded into, if there is no other word."""

RECORD_ONE = "Record one: backsight run --record train.py"


def open_run(path: str | os.PathLike[str]) -> Run:
    """Open a run for reading, while it is written or afterwards.

        run = bs.open_run("runs/first")

    Raises:
        RunNotFound: if there is nothing at this path, or it may not be read.
        NotARun: if what is there was not written by a recording.
        NewerRun: if it was written in a later format.
        DamagedRun: if no rank has a manifest that can be read.
    """
    found = Path(path)
    if not os.path.exists(found):
        raise RunNotFound(f"there is no run at {found}{_hint(found)}")
    try:
        is_run = found.is_dir() and bool(places.ranks_in(found))
    except OSError as error:
        raise RunNotFound(f"{found} cannot be read: {error.strerror or error}.") from error
    if not is_run:
        raise NotARun(f"{found} is not a recording{_instead(found)}")
    return Run(found)


def runs_in(folder: str | os.PathLike[str]) -> tuple[Run, ...]:
    """Return the runs in a folder and the folders in it, the oldest first.

        for run in bs.runs_in("runs"):
            print(run.name, len(run.steps))

    Those that cannot be read are left out with a `RunWarning`.

    Raises:
        RunNotFound: if there is no such folder.
    """
    found, unreadable = told_apart(Path(folder))
    for error in unreadable.values():
        warn(str(error), RunWarning)
    return found


def told_apart(root: Path) -> tuple[tuple[Run, ...], dict[Path, RunError]]:
    """Return the runs that can be read, the oldest first, and why each of the others cannot be.

    Raises:
        RunNotFound: if there is no such folder.
    """
    if not root.is_dir():
        raise no_folder(root)
    found: list[Run] = []
    unreadable: dict[Path, RunError] = {}
    for path in run_folders(root):
        try:
            found.append(Run(path))
        except RunError as error:
            unreadable[path] = error
    return tuple(sorted(found, key=lambda run: (run.created, str(run.path)))), dict(sorted(unreadable.items()))


def runs_begun_as(path: Path) -> list[Path]:
    """Return the runs in the folder of this path whose names begin as its own does."""
    return [path.parent / name for name in _names_in(path.parent) if name.startswith(path.name)]


def run_folders(root: Path) -> Iterator[Path]:
    """Yield the folders that hold a rank; what is inside those is not looked at, nor are links followed."""
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        try:
            if places.ranks_in(folder):
                yield folder
                continue
            with os.scandir(folder) as entries:
                waiting += [Path(entry.path) for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:  # a folder that may not be looked into holds nothing that may be read
            continue


def identity(path: Path, rank: int) -> tuple[int, int, int] | None:
    """Return what tells a run from another that is recorded in its place later; None where there is none just now.

    A rank writes its manifest once, when it begins.
    """
    try:
        found = (places.rank_folder(path, rank) / places.MANIFEST).stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def holds_a_trace(path: Path) -> bool:
    """Whether a folder is a trace, which `backsight diff` reads."""
    try:
        return path.is_dir() and any(each.stem.isdecimal() for each in path.glob("*.trace"))
    except OSError:
        return False


def _instead(path: Path) -> str:
    """The end of an error about what is no run: what it is, and what to name instead."""
    if inside := _names_in(path):
        more = ", …" if len(inside) > 5 else ""
        return f", but a folder of recordings: {', '.join(inside[:5])}{more}. Name one of them: {path / inside[0]}"
    if not holds_a_trace(path):
        return f": backsight run --record and bs.record() write recordings{_hint(path)}"
    return (
        f": it is a trace, which `backsight diff {path} OTHER` compares with another one. To see where two runs "
        "diverge in `backsight view`, under Compare, record and trace both: backsight run --record --trace steps=0,1 "
        "train.py."
    )


def _hint(path: Path) -> str:
    """The end of an error about a run: what may have been meant, or the runs beside."""
    there = _names_in(path.parent)
    others = f". Runs there: {', '.join(there[-5:])}." if there else "."
    return meant.beside(path, _is_run, 3) or others


def no_folder(path: Path) -> RunNotFound:
    """Return the error about a folder: which may have been meant, beside it or in ./runs, or how there will be one."""
    there = _names_in(Path(RUNS))
    alike = [str(Path(RUNS, each)) for each in there if path.name and path.name in each]
    near = meant.beside(path, Path.is_dir) or meant.offered(alike[-1:])
    others = f". Runs in ./{RUNS}: {', '.join(there[-5:])}." if there else f". {RECORD_ONE}"
    return RunNotFound(f"there is no folder {path}{near or others}")


def _names_in(folder: Path) -> list[str]:
    """Return the names of the runs in a folder, in order; none where it cannot be looked into."""
    try:
        return sorted(found.name for found in folder.iterdir() if _is_run(found))
    except OSError:
        return []


def _is_run(path: Path) -> bool:
    return path.is_dir() and bool(places.ranks_in(path))
