"""PyTorch's messages about autograd, as the PyTorch that runs this words them.

    python tests/messages/collect.py            # writes tests/messages/2.13.0.json, and awaited.json
    python tests/messages/collect.py --print    # prints it

Needs PyTorch and nothing else, so that it runs with any PyTorch. The programs stand in `errors_of_*.py`
and `warnings_of_autograd.py`. `awaited.json` lists, by version, the programs that are not collected there yet.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import provoking
import torch

HERE = Path(__file__).parent

for file in sorted(HERE.glob("*_of_*.py")):
    importlib.import_module(file.stem)


def version() -> str:
    """Return the version of PyTorch without what its build adds: `2.13.0`."""
    return torch.__version__.partition("+")[0]


def document() -> str:
    """Return all messages as JSON."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    found = {"torch": version(), "python": python, "messages": provoking.collected()}
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def awaited() -> str:
    """Return the programs whose messages the files of other versions lack, by version, as JSON."""
    files = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(HERE.glob("[0-9]*.json"))}
    found = {name: sorted(provoking.PROGRAMS.keys() - kept["messages"].keys()) for name, kept in files.items()}
    return json.dumps({name: each for name, each in found.items() if each}, indent=1) + "\n"


if __name__ == "__main__":
    found = document()
    if "--print" in sys.argv:
        print(found, end="")
    else:
        (HERE / f"{version()}.json").write_text(found, encoding="utf-8")
        (HERE / "awaited.json").write_text(awaited(), encoding="utf-8")
