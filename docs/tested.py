"""Fill in what backsight was tested on, from tests/matrix/results: see tests/matrix/matrix.py for what is in there."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tests" / "matrix"))

from kept import Part, Result, results  # noqa: E402
from rooms import rooms  # noqa: E402

_MARKED = re.compile(r"(<!-- matrix -->\n).*?(<!-- end -->)", re.DOTALL)

_SHOWN = 6
"""Reasons that are given for a row; all of them are in its file."""

_COLUMNS = ("PyTorch", "Python", "features", "demo", "examples/broken", "deep graphs", "tests")


def filled(text: str) -> str:
    """Return the text of a page with the table of what was tested, and below it why what failed did."""
    return _MARKED.sub(lambda found: f"{found[1]}\n{_table(results(), rooms())}\n\n{found[2]}", text)


def _table(kept: list[Result], all_rooms: list[str]) -> str:
    rows, notes = [], []
    usual = _usual_skips(kept)
    for result in kept:
        rows.append([result.torch, result.python, *_cells(result, all_rooms)])
        why = _notes(result, usual)
        if why:
            file = f"torch-{result.torch}-py{result.python}.json"
            link = f"[{result.torch} on Python {result.python}](../tests/matrix/results/{file})"
            notes.append(f"- {link}: {'; '.join(why)}.")
    lines = [_COLUMNS, ["---"] * len(_COLUMNS), *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{table}\n\nWhat failed or was skipped, and why:\n\n" + "\n".join(notes) if notes else table


def _cells(result: Result, all_rooms: list[str]) -> list[str]:
    doctor = result.parts.get("doctor")
    features = "not run" if doctor is None else f"{doctor.passed} of {doctor.passed + doctor.skipped}"
    demo, broken, deep = (_cell(result.parts.get(name)) for name in ("demo", "broken", "deep"))
    tests, count = _cell(_sum(list(result.tests.values()))), sum(room in result.tests for room in all_rooms)
    some = f" (of {count} of {len(all_rooms)} rooms)" if 0 < count < len(all_rooms) else ""
    return [features, demo, broken, deep, f"{tests}{some}"]


def _cell(part: Part | None) -> str:
    """Say `all 6,912`, or `6,900, 3 fail`."""
    if part is None or not part.passed + part.failed + part.skipped:
        return "not run"
    skipped = f", {part.skipped:,} skipped" if part.skipped else ""
    if part.failed:
        return f"{part.passed:,}, {part.failed:,} fail{'s' if part.failed == 1 else ''}{skipped}"
    return f"all {part.passed:,}{skipped}"


def _sum(parts: list[Part]) -> Part:
    return Part(sum(part.passed for part in parts), sum(part.failed for part in parts), sum(p.skipped for p in parts))


def _usual_skips(kept: list[Result]) -> set[str]:
    """Return why tests are skipped on the PyTorch that `make test` installs: nothing to tell of another."""
    pinned = re.search(r"^torch==(\S+)$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    if pinned is None:
        raise ValueError("constraints.txt does not say which PyTorch the tests run on")
    return {why for each in kept if each.torch == pinned[1] for part in each.tests.values() for why in part.skips}


def _notes(result: Result, usual: set[str]) -> list[str]:
    """Say why what failed did, the commonest reason of each part first, and why something is only skipped here."""
    doctor = result.parts.get("doctor", Part())
    notes = [f"lost: {_escaped(feature)}" for feature in doctor.skips]
    for name, part in result.parts.items():
        where = {reason: test for test, reason in part.failures.items()}
        notes += _reasons(name, Counter(part.failures.values()), where)
    for room, part in result.tests.items():
        skipped = Counter({why: count for why, count in part.skips.items() if why not in usual})
        notes += _reasons(f"skipped in {room}", skipped, {})
    most = _SHOWN + len(doctor.skips)
    return notes if len(notes) <= most else [*notes[:most], f"and {len(notes) - most} more reasons"]


def _reasons(name: str, counted: Counter[str], where: dict[str, str]) -> list[str]:
    """Say each reason with how often it was given, or for whom if that is one.

    where: by reason the last of whom it was given for.
    """

    def told(why: str, count: int) -> str:
        whose = f"{where[why].removeprefix(name + '/')}: " if why in where else ""
        return f"{name}: {f'{count} × ' if count > 1 else _escaped(whose)}{_escaped(why)}"

    return [told(why, count) for why, count in counted.most_common()]


def _escaped(text: str) -> str:
    short = text if len(text) <= 120 else f"{text[:117]}..."
    return re.sub(r"([|*_<\[\]`])", r"\\\1", short)
