"""Other texts for some files, in this process alone: a program runs as if it were edited, and no file is touched.

What Python imports has them, and what reads lines through `linecache`: tracebacks, and explanations. A process that the
program starts reads the files as they are, unless it is forked.
"""

from __future__ import annotations

import importlib.machinery
import io
import json
import linecache
import os
import tokenize
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from backsight.launch.program import _absolute

EDITED = "BACKSIGHT_EDITED"
"""The variable of the environment that names a file of JSON, the texts by path: the program does not find it there."""


def ask(script: str) -> bool:
    """Put the texts over their files, if the environment names some, and return whether it does: in a trial.

    script: the one that will run.
    """
    file = os.environ.pop(EDITED, "")
    if file:
        overlay(json.loads(Path(file).read_text(encoding="utf-8")), script)
    return bool(file)


def _encoded(text: str) -> bytes:
    """A source text as its own first lines say that it is encoded."""
    data = text.encode()
    encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
    return text.encode(encoding)


def overlay(files: Mapping[str, str], script: str = "") -> None:
    """Let this process read `files`, by absolute path, as if they had these texts."""
    texts = {os.path.realpath(file): text for file, text in files.items()}
    loader: Any = importlib.machinery.SourceFileLoader
    get_data, path_stats = loader.get_data, loader.path_stats

    def data_of(self: Any, path: str) -> bytes:
        text = texts.get(os.path.realpath(path))
        return get_data(self, path) if text is None else _encoded(text)

    def stats_of(self: Any, path: str) -> Mapping[str, Any]:
        if os.path.realpath(path) in texts:
            raise OSError("of an edited file, no bytecode is read or written")
        return path_stats(self, path)  # type: ignore[no-any-return]

    loader.get_data, loader.path_stats = data_of, stats_of
    for name in (*files, _absolute(script)):
        text = texts.get(os.path.realpath(name))
        if text is not None:
            linecache.cache[name] = len(text), None, text.splitlines(keepends=True), name
