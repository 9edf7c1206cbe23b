"""Fail unless the newest PyTorch on the package index was tried: a check of a release, which needs the network.

python tests/matrix/newest.py
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from environments import CannotBeMade, surroundings
from kept import Result, numbers, results


def torch_for(python: Path) -> str:
    """Return the newest PyTorch that the index has for a Python.

    Raises:
        CannotBeMade: if the index does not say.
    """
    command = [python, "-m", "pip", "--disable-pip-version-check", "index", "versions", "torch"]
    said = subprocess.run(command, capture_output=True, text=True, env=surroundings())
    found = re.search(r"^Available versions: (.+)$", said.stdout, re.MULTILINE)
    if found is None:
        why = (said.stderr.strip().splitlines() or ["pip says nothing"])[-1]
        raise CannotBeMade(f"the package index does not say which PyTorch is the newest: {why}")
    versions = {version.strip().partition("+")[0] for version in found[1].split(",")}
    return max(versions, key=numbers)


def complaint(torch: str, kept: list[Result]) -> str:
    """Say what is missing for a release while this is the newest PyTorch; nothing if nothing is."""
    tried = [result for result in kept if result.torch == torch]
    if not tried:
        others = ", ".join(dict.fromkeys(result.torch for result in kept)) or "none"
        return f"PyTorch {torch} is the newest on the index and was never tried (tried: {others})"
    if not any(result.main_job and result.tests for result in tried):
        return f"PyTorch {torch} is the newest on the index, and no kept result of it has a whole demo and tests"
    return ""


def main() -> int:
    try:
        torch = torch_for(Path(sys.executable))
    except CannotBeMade as why:
        print(f"newest: {why}", file=sys.stderr)
        return 2
    missing = complaint(torch, results())
    if missing:
        print(f"newest: {missing}: make matrix TORCH={torch}, then python docs/pages.py", file=sys.stderr)
        return 1
    print(f"PyTorch {torch}, the newest on the index, is in the table of docs/versions.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
