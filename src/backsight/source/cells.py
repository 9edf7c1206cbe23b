"""The cells of a notebook, by the names that IPython gives them."""

from __future__ import annotations

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
