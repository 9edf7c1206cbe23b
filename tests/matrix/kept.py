"""What the matrix has found, one file for each PyTorch and Python: tests/matrix/results/torch-2.15.0-py3.12.json."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
TESTS = "tests/"
"""What the names of parts begin with that are the tests of a room."""


@dataclass
class Part:
    """How one part went: counts, what failed, each with a reason of one line, and how many were skipped for what."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: int = 0
    failures: dict[str, str] = field(default_factory=dict)
    skips: dict[str, int] = field(default_factory=dict)
    date: str = field(default_factory=lambda: time.strftime("%Y-%m-%d"))


@dataclass
class Result:
    """All that was found on one PyTorch and one Python."""

    torch: str
    python: str
    versions: dict[str, str]
    platform: str
    parts: dict[str, Part]

    @property
    def key(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """What results are ordered by."""
        return numbers(self.torch), numbers(self.python)

    @property
    def main_job(self) -> bool:
        """Whether `backsight run` does here what it is there for: the demo shows all of its acts."""
        return all(name in self.parts and not self.parts[name].failed for name in ("import", "demo"))

    @property
    def tests(self) -> dict[str, Part]:
        """By room how its tests went."""
        return {name.removeprefix(TESTS): part for name, part in self.parts.items() if name.startswith(TESTS)}


def numbers(version: str) -> tuple[int, ...]:
    """Return 2.15.0+cu130 as (2, 15, 0)."""
    return tuple(int(number) for number in re.findall(r"\d+", version.partition("+")[0]))


def results(folder: Path = RESULTS) -> list[Result]:
    """Return all that is kept, the newest PyTorch first and of each the newest Python first."""
    found = [_read(file) for file in folder.glob("torch-*.json")]
    return sorted(found, key=lambda result: result.key, reverse=True)


def kept(about: dict[str, Any], folder: Path = RESULTS) -> dict[str, Part]:
    """Return what is kept of this PyTorch and this Python, by the names of the parts."""
    torch, python = _name(about)
    file = folder / f"torch-{torch}-py{python}.json"
    return _read(file).parts if file.exists() else {}


def _name(about: dict[str, Any]) -> tuple[str, str]:
    versions = about["versions"]
    return versions["torch"].partition("+")[0], ".".join(versions["python"].split(".")[:2])


def merge(about: dict[str, Any], parts: dict[str, Part], folder: Path = RESULTS) -> Path:
    """Put parts into what is kept of this PyTorch and this Python; return the file.

    about: `versions` and `platform` of the environment.
    """
    torch, python = _name(about)
    before = kept(about, folder)
    result = Result(torch, python, about["versions"], about["platform"], dict(sorted((before | parts).items())))
    file = folder / f"torch-{torch}-py{python}.json"
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(asdict(result), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return file


def clean(part: Part, places: Iterable[tuple[str, str]]) -> Part:
    """Return the part without the places of this machine: pairs of a path and what is written for it."""

    def cleaned(text: str) -> str:
        for path, instead in places:
            text = text.replace(path, instead)
        return re.sub(r"0x[0-9a-f]{6,}", "0x…", text)[:300]

    failures = {name: cleaned(reason) for name, reason in part.failures.items()}
    skips = {cleaned(reason): count for reason, count in part.skips.items()}
    return Part(part.passed, part.failed, part.skipped, part.seconds, failures, skips, part.date)


def _read(file: Path) -> Result:
    document = json.loads(file.read_text(encoding="utf-8"))
    return Result(**document | {"parts": {name: Part(**part) for name, part in document["parts"].items()}})
