"""What `import backsight` adds to `import torch`: its time, and the modules that it pulls in.

    python bench/imports.py [--quick]

Both are timed in fresh interpreters, in turn, after an import of torch.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter

from _measure import median, report, simple_table, verdict
from rich.console import Console
from rich.table import Table

LIMIT = 0.050  # seconds
PROGRAM = """
import json, sys, time
import torch
before, start = set(sys.modules), time.perf_counter()
{statement}
seconds = time.perf_counter() - start
print(json.dumps([seconds, sorted(set(sys.modules) - before)]))
"""
STATEMENTS = {
    "backsight": "import backsight",
    "backsight.graph": "import backsight; backsight.graph",
    "backsight.audit": "import backsight; backsight.audit",
}


def imported(statement: str) -> tuple[float, list[str]]:
    """Run a statement in a fresh interpreter that has torch, and return its seconds and the modules it imported."""
    program = PROGRAM.format(statement=statement)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    seconds, modules = json.loads(done.stdout)
    return seconds, modules


def by_package(modules: list[str]) -> str:
    """List top-level packages with the number of modules that were imported of each."""
    counts = Counter(module.partition(".")[0] for module in modules)
    return ", ".join(name if n == 1 else f"{name} ({n})" for name, n in counts.most_common()) or "none"


def table(seconds: dict[str, list[float]], modules: dict[str, list[str]], rounds: int) -> Table:
    title = f"Importing after torch: median of {rounds} fresh interpreters each, in turn"
    out = simple_table("import", "ms", "worst", title=title)
    out.add_column("modules", overflow="fold")
    for name, times in seconds.items():
        middle, worst = median(times) * 1e3, max(times) * 1e3
        out.add_row(name, f"{middle:.1f}", f"{worst:.1f}", by_package(modules[name]))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what importing backsight adds to importing torch.")
    parser.add_argument("--quick", action="store_true", help="3 rounds instead of 7")
    rounds = 3 if parser.parse_args().quick else 7
    seconds: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    modules: dict[str, list[str]] = {}
    with Console(stderr=True).status("importing"):
        for _ in range(rounds):
            for name, statement in STATEMENTS.items():
                took, modules[name] = imported(statement)
                seconds[name].append(took)
    added = median(seconds["backsight"])
    report(
        table(seconds, modules, rounds),
        f"modules of backsight: {', '.join(m for m in modules['backsight'] if m.startswith('backsight'))}",
        verdict(added < LIMIT, f"import backsight adds {added * 1e3:.1f} ms (under {LIMIT * 1e3:.0f})"),
    )


if __name__ == "__main__":
    main()
