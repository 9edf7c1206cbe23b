"""The cells of a notebook, by the names that IPython gives them."""

from __future__ import annotations

import linecache
import sys


def cell(file: str) -> str | None:
    """Return `In[3]` for the made-up file of a cell, as IPython's own traceback calls it; None for any other file.

    Source: IPython, core/compilerop.py, `CachingCompiler.format_code_name`.
    """
    ipython = sys.modules.get("IPython")
    if ipython is None:
        return None
    try:
        shell = ipython.get_ipython()
        named = shell.compile.format_code_name(file) if shell is not None else None
    except Exception:  # another kind of shell, or one that is being set up: the path has to do
        return None
    return named[1] if named is not None and named[0] == "Cell" else None


def other_cells(file: str) -> list[str]:
    """Return the made-up files of a notebook's cells but `file`, the newest first; none if `file` is no cell.

    All cells are one module: what stands in one may have been made by a statement of another.
    """
    if cell(file) is None:
        return []
    # IPython enters each cell here as it is run; tracebacks need the text.
    return [other for other in reversed(list(linecache.cache)) if other != file and cell(other) is not None]
