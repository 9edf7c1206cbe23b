"""What processes of these tests find around them."""

from __future__ import annotations

import os
from pathlib import Path

import backsight.launch

HERE = Path(__file__).parent
SOURCE = Path(backsight.launch.__file__).parents[2]


def environment(extra: dict[str, str]) -> dict[str, str]:
    """This process's environment, without what would make an interpreter behave unusually."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COVERAGE"))}
    return clean | {"PYTHONPATH": os.pathsep.join([str(SOURCE), str(HERE)]), "NO_COLOR": "1"} | extra
