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

from backsight.surface import FEATURES  # noqa: E402

_MARKED = re.compile(r"(<!-- matrix -->\n).*?(<!-- end -->)", re.DOTALL)

_FAILS = {
    "import": "`import backsight` fails",
    "doctor": "`backsight doctor` fails",
    "demo": "What fails of the demo: {names}",
    "broken": "Explained otherwise than on PyTorch 2.13: {names}",
    "deep": "A graph of a million operations ends the process in the {names}",
}
"""What it means to a user that something failed of a part which is no room's tests."""

_OF_THE_MACHINE = re.compile(r"no CUDA device|could not import|needs |root may ")
"""Why a test is skipped that tells of the machine, and not of PyTorch or Python."""

_FOLDED = "<details><summary>Which tests are skipped there, and not everywhere</summary>"

_COLUMNS = ("PyTorch", "Python", "features", "demo", "examples/broken", "deep graphs", "tests")


def filled(text: str) -> str:
    """Return the text of a page with the table of what was tested, and below it why what failed did."""
    return _MARKED.sub(lambda found: f"{found[1]}\n{_table(results(), rooms())}\n\n{found[2]}", text)


def _table(kept: list[Result], all_rooms: list[str]) -> str:
    rows, notes, skips = [], [], []
    for result in kept:
        rows.append([result.torch, result.python, *_cells(result, all_rooms)])
        file = f"torch-{result.torch}-py{result.python}.json"
        link = f"[{result.torch} on Python {result.python}](../tests/matrix/results/{file})"
        if told := _notes(result):
            notes.append(f"- {link}: {'. '.join(told)}.")
        if skipped := _skips(result, kept):
            skips.append(f"- {link}: {'; '.join(skipped)}.")
    lines = [_COLUMNS, ["---"] * len(_COLUMNS), *rows]
    blocks = ["\n".join(f"| {' | '.join(line)} |" for line in lines)]
    if notes:
        blocks += ["What is lost where, and which rooms' tests fail (the file of each row says why):", "\n".join(notes)]
    if skips:
        blocks += [_FOLDED, "\n".join(skips), "</details>"]
    return "\n\n".join(blocks)


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


def _notes(result: Result) -> list[str]:
    """Say what a user lacks there, and which rooms' tests fail."""
    doctor = result.parts.get("doctor", Part())
    lost = dict.fromkeys(skip.partition(" (")[0] for skip in doctor.skips)
    notes = [f"Lost: {'; '.join(FEATURES.get(feature, feature) for feature in lost)}"] if lost else []
    for name, fails in _FAILS.items():
        if failures := result.parts.get(name, Part()).failures:
            notes.append(fails.format(names=_listed([f"`{each}`" for each in failures])))
    failed = Counter({room: part.failed for room, part in result.tests.items() if part.failed})
    if failed:
        notes.append(f"Tests that fail: {_listed([f'{count} of `{room}`' for room, count in failed.most_common()])}")
    return notes


def _skips(result: Result, kept: list[Result]) -> list[str]:
    """Say why tests are skipped there and not everywhere, and how many."""
    skipped = Counter[str]()
    for room, part in result.tests.items():
        others = [each.tests[room].skips for each in kept if each is not result and room in each.tests]
        skipped.update({why: n for why, n in part.skips.items() if not all(why in skips for skips in others)})
    return [_escaped(f"{why} ({count})") for why, count in skipped.most_common() if not _OF_THE_MACHINE.match(why)]


def _listed(names: list[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def _escaped(text: str) -> str:
    return re.sub(r"([|*_<\[\]`])", r"\\\1", text)
