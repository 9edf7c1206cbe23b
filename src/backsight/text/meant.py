"""What was meant by a name that is not there: every error that says so says it alike."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path


def meant(name: str, known: Iterable[str], most: int = 1, likeness: float = 0.6) -> str:
    """Return the end of an error about a name: which of the known ones is close to it; nothing if none is.

    >>> meant("trian.py", ["train.py", "data.py"])
    "; did you mean 'train.py'?"
    """
    return offered(get_close_matches(name, known, most, likeness))


def offered(names: Iterable[str]) -> str:
    """Return the same for names that were found in another way.

    >>> offered(["run", "runs"]), offered([])
    ("; did you mean 'run' or 'runs'?", '')
    """
    *others, last = [repr(each) for each in names] or [""]
    return f"; did you mean {', '.join(others)}{' or ' if others else ''}{last}?" if last else ""


_LIKE_A_FILE = 0.7
"""How close names of files must be: those that share no more than `.py` are close already."""


def beside(path: str | os.PathLike[str], is_meant: Callable[[Path], bool] = Path.exists, most: int = 1) -> str:
    """Return the same for a path: what lies where it leads, as one would type it.

    is_meant: which of that: `Path.is_file`, `Path.is_dir`.
    """
    wanted = Path(path)
    try:
        there = sorted(each.name for each in wanted.parent.iterdir() if each.name[0] != "." and is_meant(each))
    except (OSError, ValueError):  # no folder, or one that may not be looked into; a NUL
        return ""
    near = get_close_matches(wanted.name, there, most, _LIKE_A_FILE)
    return offered([str(wanted.parent / each) for each in near])
