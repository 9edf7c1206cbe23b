"""Programs that fail, run as a script is, and what is said of it."""

from __future__ import annotations

import linecache
import textwrap
from typing import Any

import torch

import backsight as bs

FILE = "train.py"


def written(source: str) -> str:
    return textwrap.dedent(source).lstrip("\n")


def failing(source: str, file: str = FILE, readable: bool = True, **variables: Any) -> Exception:
    """Run a program that must fail, and return its exception; its source is known the way a notebook cell's is."""
    text = written(source)
    linecache.cache.pop(file, None)
    if readable:
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        try:
            exec(compile(text, file, "exec"), {"__name__": "__main__", "torch": torch, **variables})
        except Exception as error:
            return error
        finally:
            torch.set_grad_enabled(True)
    raise AssertionError(f"the program ended without an error:\n{text}")


def explained(source: str, **variables: Any) -> bs.Finding:
    return bs.explain(failing(source, **variables))


def at(source: str, text: str = "# here") -> str:
    """`file:line` of the line of a program that contains `text`."""
    lines = written(source).splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if text in line]
    return f"{FILE}:{number}"


def evidence(finding: bs.Finding) -> str:
    return "\n".join(map(str, finding.evidence))
