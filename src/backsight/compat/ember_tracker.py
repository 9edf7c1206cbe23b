"""`emberTracker`: the files of a torchEmber log."""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

from backsight.blame import warn
from backsight.compat.ember_rows import Row, plain
from backsight.runs import RunWarning


class emberTracker:
    """A log of dicts, one JSON text a line, in `~/.torchember/log`, and dicts by name in `~/.torchember/data`.

    ```python
    track = emberTracker("testmodel")
    track + {"col1": 1, "col2": "two"}
    track["about"] = {"property": False}
    track.df                                # a row for each dict that was added
    ```

    Files are made when something is written. A log of the same name is continued.

    Args:
        fname: the name of the log.
        held: called for rows that are to be written before anything else is, or is read.

    Raises:
        ValueError: if the name, or one of `track[name]`, could not be that of a file.
    """

    def __init__(self, fname: str, held: Callable[[], Iterable[Mapping[str, Any]]] = tuple):
        self.fname = _checked(fname)
        self.dir = _home()
        self.data = self.dir / "data"
        self.log = self.dir / "log"
        self.log_path = self.log / fname
        self.latest = self.log / f"{fname}_latest"
        self.marked: Row = {}
        self._held = held
        self._process = os.getpid()
        self._turn = threading.RLock()
        self._whole = False
        """Whether the log is known to end with a whole line."""
        self._start = self._size()
        """Where in the log begins what `refresh` will show."""

    @property
    def ts(self) -> str:
        """The time, as rows have it."""
        return datetime.now().strftime("%Y-%m-%d %H:%M:%S")

    def mark(self, **tags: Any) -> None:
        """Add these as columns to the rows to come, until they are marked otherwise."""
        self.flush()
        self.marked = {**self.marked, **plain(tags)}

    def __add__(self, row: Mapping[str, Any]) -> emberTracker:
        """Add a dict to the log; `track(row)` does the same."""
        added = plain(row)
        with self._turn:
            self.flush()
            self._write([added])
        return self

    __call__ = __add__

    def __setitem__(self, name: str, held: Mapping[str, Any]) -> None:
        """Store a dict under a name, in place of what was there."""
        path, text = self._stored(name), json.dumps(plain(held), indent=2)
        self.data.mkdir(parents=True, exist_ok=True)
        _replace(path, text.encode())

    def __getitem__(self, name: str) -> Any:
        """Return the dict that was stored under a name.

        Raises:
            KeyError: if there is none.
        """
        try:
            return json.loads(self._stored(name).read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            raise KeyError(name) from None

    def flush(self) -> None:
        """Write the rows that are held."""
        if os.getpid() == self._process:  # else they are those of the process that this one was forked off
            with self._turn:
                self._write(self._held())

    def begin(self) -> None:
        """Begin what `latest` shows: no row before this moment belongs to it."""
        with self._turn:
            self.flush()
            self._start = self._size()

    def refresh(self, *, more: bool = False) -> Path:
        """Let `latest` show the rows since it was last refreshed; those to come join them if there are `more`."""
        with self._turn:
            self.flush()
            self.log.mkdir(parents=True, exist_ok=True)
            _replace(self.latest, self._read(self._start))
            if not more:
                self._start = self._size()
        return self.latest

    def lines(self) -> list[Row]:
        """Return the rows of the log."""
        self.flush()
        return _parsed(self._read(0), self.log_path)

    def latest_line_list(self) -> list[Row]:
        """Return the rows that were last refreshed, or all that this object has added as long as none were."""
        self.flush()
        try:
            return _parsed(self.latest.read_bytes(), self.latest)
        except (FileNotFoundError, NotADirectoryError):
            return _parsed(self._read(self._start), self.log_path)

    @property
    def df(self) -> Any:
        """The log as a pandas DataFrame.

        Raises:
            ImportError: if pandas is not installed.
        """
        return _frame("df", "lines()", self.lines)

    @property
    def latest_df(self) -> Any:
        """What was last refreshed, as a pandas DataFrame.

        Raises:
            ImportError: if pandas is not installed.
        """
        return _frame("latest_df", "latest_line_list()", self.latest_line_list)

    def __reduce__(self) -> tuple[Any, ...]:
        return emberTracker, (self.fname,)

    def __repr__(self) -> str:
        return f"<torchember:{self.fname}>"

    def _write(self, rows: Iterable[Mapping[str, Any]]) -> None:
        # What the row says itself comes first, in the table as in the right to a name.
        lines = [json.dumps({**row, **self.marked, **row}) for row in rows]
        if not lines:
            return
        self.log.mkdir(parents=True, exist_ok=True)
        data = "\n".join([*lines, ""]).encode()
        with open(self.log_path, "ab") as log:
            log.write(data if self._whole or self._ends_whole() else b"\n" + data)
        self._whole = True

    def _ends_whole(self) -> bool:
        """False where another process was killed in the middle of a line."""
        return self._read(max(0, self._size() - 1)) in (b"", b"\n")

    def _read(self, start: int) -> bytes:
        try:
            with open(self.log_path, "rb") as log:
                log.seek(start)
                return log.read()
        except (FileNotFoundError, NotADirectoryError):
            return b""

    def _size(self) -> int:
        try:
            return self.log_path.stat().st_size
        except OSError:  # there is no log as yet, or none to be had: the first to write will hear why
            return 0

    def _stored(self, name: str) -> Path:
        return self.data / f"{_checked(name)}.json"


def spelt(name: str) -> str:
    """Return a name as that of a file: a class may be called anything."""
    return re.sub(r"[^\w.+-]", "_", name)[-100:]


def claimed(name: str) -> str:
    """Return `name`, or that with a number if there is a log of it, after making an empty log of this name.

    Raises:
        OSError: if nothing can be written there.
    """
    folder = _home() / "log"
    folder.mkdir(parents=True, exist_ok=True)
    for number in count(1):
        known = name if number == 1 else f"{name}-{number}"
        try:
            (folder / known).touch(exist_ok=False)
        except FileExistsError:
            continue
        return known
    raise AssertionError("numbers do not end")


def last_words(log: emberTracker) -> None:
    """Write what a log still holds, where nobody is left to be told that it fails."""
    try:
        log.flush()
    except OSError:
        pass


def _home() -> Path:
    try:
        return Path.home() / ".torchember"
    except RuntimeError:  # a user without a home, as in some containers
        return Path(".torchember").absolute()


def _checked(name: str) -> str:
    if not isinstance(name, str) or name in ("", ".", "..") or re.search(r"[/\\\0]", name):
        raise ValueError(f"{name!r} cannot be the name of a file.")
    return name


def _replace(path: Path, data: bytes) -> None:
    """Write a file so that nobody reads half of it."""
    half = path.with_name(f"{path.name}.{os.getpid()}.new")
    half.write_bytes(data)
    os.replace(half, path)


def _parsed(data: bytes, path: Path) -> list[Row]:
    rows, torn = [], 0
    for line in data.splitlines():
        try:
            rows.append(json.loads(line))
        except ValueError:
            torn += bool(line)
    if torn:
        warn(f"{torn} lines of {path} are damaged and were skipped.", RunWarning)
    return rows


def _frame(asked: str, instead: str, rows: Callable[[], list[Row]]) -> Any:
    try:
        pandas = import_module("pandas")
    except ImportError as error:
        raise ImportError(
            f"{asked} needs pandas, which is not installed: pip install 'backsight[runs]'. "
            f"{instead} returns the same rows as dicts."
        ) from error
    return pandas.DataFrame(rows())
