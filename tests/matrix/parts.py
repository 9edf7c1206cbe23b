"""What is tried on each PyTorch beside the tests: the import, doctor, the demo, examples/broken, deep graphs."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from environments import ROOT, surroundings
from kept import Part
from processes import Ended, run

BROKEN = ROOT / "examples" / "broken"
EXPECTED = Path(__file__).parent / "expected.json"

MAIN, SMALL = 0, 512 * 1024
"""Sizes of stacks in bytes: of the main thread, as it is, and of a small one."""


def imported(python: Path, limit: float) -> Part:
    return _one("import backsight", _python(python, "-c", "import backsight", limit=limit))


def doctor(python: Path, limit: float) -> Part:
    """Count the features that are whole; one that this PyTorch lacks something for is skipped, with what is lost."""
    ended = _python(python, "-m", "backsight", "doctor", "--json", limit=limit)
    part = _one("backsight doctor", ended)
    if ended.status == 0:
        found = json.loads(ended.out)["parts"]
        part.passed = sum(each["state"] == "whole" for each in found)
        part.skips = {f"{each['name']} ({each['why']})": 1 for each in found if each["state"] == "lost"}
        part.skipped = len(part.skips)
    return part


def demo(python: Path, limit: float) -> Part:
    """The demo sees to it itself that each act shows what it is there for, by codes; and says which did not."""
    with tempfile.TemporaryDirectory(prefix="backsight-demo-of-matrix-") as folder:
        ended = _python(python, "-m", "backsight", "demo", "--no-open", limit=limit, TMPDIR=folder)
    acts = len(set(re.findall(r"^(\d) of \d ", ended.out, re.MULTILINE)))
    wrong = re.findall(r"^  act (\d+): (.+)$", ended.err, re.MULTILINE)
    part = Part()
    for number, what in wrong:
        before = part.failures.get(f"act {number}")
        part.failures[f"act {number}"] = f"{before}; {what}" if before else what
    if ended.status != 0 and not wrong:
        part.failures["backsight demo"] = _reason(ended)
    part.failed = len(part.failures)
    part.passed = max(acts - part.failed, 0)
    return part


def broken(python: Path, limit: float) -> Part:
    """Compare what is said of each program in examples/broken with what is kept: codes, lines, fixes."""
    expected, part = json.loads(EXPECTED.read_text(encoding="utf-8")), Part()
    for script in sorted(BROKEN.glob("*.py")):
        found, messages = told(python, script, limit)
        difference = _difference(expected.get(script.name), found)
        if difference:
            part.failures[script.name] = "; ".join([difference, *messages])
        else:
            part.passed += 1
    part.failed = len(part.failures)
    return part


def accept(python: Path, limit: float) -> None:
    """Keep what is said of each program in examples/broken now: the expectation of every other PyTorch."""
    found = {script.name: told(python, script, limit)[0] for script in sorted(BROKEN.glob("*.py"))}
    EXPECTED.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def deep(python: Path, limit: float) -> Part:
    """A walked chain of a million nodes is freed, whatever the stack."""
    program, part = str(Path(__file__).with_name("deep.py")), Part()
    for name, stack in (("main thread", MAIN), ("thread with a stack of 512 kB", SMALL)):
        ended = _python(python, program, str(stack), limit=limit)
        if ended.status == 0:
            part.passed += 1
        else:
            part.failures[name] = _reason(ended)
    part.failed = len(part.failures)
    return part


PARTS: dict[str, Callable[[Path, float], Part]] = {
    "import": imported,
    "doctor": doctor,
    "demo": demo,
    "broken": broken,
    "deep": deep,
}
"""By name what is tried before the tests, each given a Python and how many seconds it may take."""


def told(python: Path, script: Path, limit: float) -> tuple[dict[str, Any], list[str]]:
    """Return what `backsight run` makes of a script, to be compared, and what it says of itself.

    The first is the exit status, and of each finding the code, the lines of the script that it names, and the fix.
    """
    with tempfile.TemporaryDirectory(prefix="backsight-broken-") as folder:
        said = Path(folder) / "said.jsonl"
        ended = _python(python, "-m", "backsight", "run", "--json-to", str(said), str(script), limit=limit)
        lines = said.read_text(encoding="utf-8").splitlines() if said.exists() else []
    heard = [json.loads(line) for line in lines]
    findings = [_kept(line, script) for line in heard if "code" in line]
    messages = [line["text"] for line in heard if line["kind"] == "message" and "audits" not in line]
    return {"status": ended.status, "findings": findings}, messages


def _kept(finding: dict[str, Any], script: Path) -> dict[str, Any]:
    places = [finding["source"] or {}, *finding["evidence"]]
    lines = [place["line"] for place in places if place.get("file") and Path(place["file"]).name == script.name]
    return {"code": finding["code"], "lines": lines, "fix": finding["fix"]}


def _difference(expected: Any, found: Any) -> str:
    """Say in a line how what was told differs from what was expected; nothing if it does not."""
    if expected is None:
        return "not in tests/matrix/expected.json: python tests/matrix/matrix.py --here --accept"
    if expected == found:
        return ""
    for what in ("code", "lines", "fix"):
        before, now = ([finding[what] for finding in told["findings"]] for told in (expected, found))
        if before != now:
            plural = {"code": "codes", "lines": "lines", "fix": "fix"}[what]
            return f"{plural}: {_listed(now)} instead of {_listed(before)}"
    return f"exit status {found['status']} instead of {expected['status']}"


def _listed(values: list[Any]) -> str:
    return ", ".join(map(str, values)) or "none"


def _one(name: str, ended: Ended) -> Part:
    """A part that is one program, which must end with 0."""
    if ended.status == 0:
        return Part(passed=1)
    return Part(failed=1, failures={name: _reason(ended)})


def _reason(ended: Ended) -> str:
    last = (ended.err.strip() or ended.out.strip()).splitlines()[-1:]
    return f"{ended.how}: {last[0].strip()}" if last and ended.status is not None else ended.how


def _python(python: Path, *arguments: str, limit: float, **around: str) -> Ended:
    with tempfile.TemporaryDirectory(prefix="backsight-part-") as folder:
        env = surroundings() | {"XDG_CACHE_HOME": folder} | around
        return run([str(python), *arguments], env=env, within=Path(folder), limit=limit)
