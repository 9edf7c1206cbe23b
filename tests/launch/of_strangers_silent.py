"""Trainings of strangers, who knew nothing of the rules: with a fault that raises nothing (s), and in order (h).

python tests/launch/of_strangers_silent.py            what `backsight run` says of each, by code
python tests/launch/of_strangers_silent.py --accept   write it into told.json, to be held by the tests
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).with_name("strangers")
TOLD = HERE / "told.json"
SOURCE = Path(__file__).parents[2] / "src"


def files() -> list[Path]:
    return sorted(HERE.glob("[sh][0-9][0-9]_*.py"))


def told(file: Path) -> list[str]:
    """The codes of the errors and warnings at the end of a run; the script has to end well."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(SOURCE)}
    command = [sys.executable, "-m", "backsight", "run", file.name]
    ended = subprocess.run(command, cwd=file.parent, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    return re.findall(r"^(?:error|warning) (BS\d+)", ended.stderr, re.MULTILINE)


def main(arguments: list[str]) -> None:
    found = {file.stem: told(file) for file in files()}
    for name, codes in found.items():
        print(f"{name:<24}{' '.join(codes) or '-'}")
    faults = [codes for name, codes in found.items() if name.startswith("s")]
    alarms = [codes for name, codes in found.items() if name.startswith("h") and codes]
    healthy = len(found) - len(faults)
    print(f"{sum(map(bool, faults))} of {len(faults)} faults told, {len(alarms)} false alarms of {healthy}")
    if "--accept" in arguments:
        TOLD.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
