"""Walk a chain of a million nodes and let go of it, in this thread or in one with a small stack: `deep.py BYTES`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tape"))

from deep_scenarios import captured_then_dropped, in_thread

OPERATIONS = 1_000_000

if __name__ == "__main__":
    in_thread(int(sys.argv[1]), captured_then_dropped, "chain", OPERATIONS)
