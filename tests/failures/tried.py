"""Each fix tried: whether the program, edited as a fix says, runs to its end, and trains what it trains.

python tests/failures/tried.py            every fix of every script: those that fail, and how many are concrete
python tests/failures/tried.py NAME ...   those of the scripts whose name contains one of these; -v shows all
"""

from __future__ import annotations

import json
import random
import re
import runpy
import shutil
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MARK = "what came of it: "


@dataclass(frozen=True)
class Advice:
    """What is said to do: a fix, and the line that its finding is about, as `(file, line)`."""

    fix: str
    file: str
    line: int


@dataclass(frozen=True)
class Tried:
    """What came of one alternative of a fix."""

    said: str
    outcome: str
    """`runs`, `prose`, `no place`, `does not fit`, `same error`, `other error` or `trains nothing`."""
    detail: str = ""

    @property
    def failed(self) -> bool:
        return self.outcome not in ("runs", "prose", "no place")


def advice(golden: str) -> Advice | None:
    """What an accepted text says to do; None if it says nothing."""
    fix = re.search(r"^  fix: (.*(?:\n  .*)*)", golden, re.MULTILINE)
    if fix is None:
        return None
    at = re.search(r"^> (\S+\.py):(\d+)", golden, re.MULTILINE) or re.search(
        r"^  (?:at )?(\S+\.py):(\d+)", golden, re.MULTILINE
    )
    file, line = (Path(at[1]).name, int(at[2])) if at else ("", 0)
    return Advice(fix[1].replace("\n  ", " "), file, line)


def tries(path: Path, given: Advice) -> Iterator[Tried]:
    """Yield what comes of each alternative of a fix."""
    from edits import NoPlace, Program, Refused, edits_of

    for said, edits in edits_of(given.fix):
        named = re.search(r"\w+\.py", said)
        file = Path(named[0] if named else given.file).name
        file = file if file and (path.parent / file).is_file() else path.name
        if not edits:
            yield Tried(said, "prose")
            continue
        program = Program((path.parent / file).read_text(encoding="utf-8"), given.line)
        try:
            for edit in edits:
                edit(program)
            compile(str(program), file, "exec")
        except NoPlace as why:
            yield Tried(said, "no place", str(why))
            continue
        except Refused as why:
            yield Tried(said, "does not fit", str(why))
            continue
        except SyntaxError as why:
            yield Tried(said, "does not fit", f"{why}: {why.text}")
            continue
        yield _judged(said, path, _ended(path, file, str(program)))


def _judged(said: str, path: Path, end: dict[str, Any]) -> Tried:
    error: str | None = end["error"]
    idle = [f"{name} trains none of {size}" for name, size, moved in end["optimizers"] if not moved]
    partly = [f"{name} trains {moved} of {size}" for name, size, moved in end["optimizers"] if 0 < moved < size]
    if error is not None or end["warnings"]:
        before = _ended(path, path.name, path.read_text(encoding="utf-8"))
        if error is not None:
            same = before["error"] is not None and _alike(error) == _alike(before["error"])
            return Tried(said, "same error" if same else "other error", error)
        if before["error"] is None and {*map(_alike, before["warnings"])} <= {*map(_alike, end["warnings"])}:
            return Tried(said, "same error", end["warnings"][0])
    return Tried(said, "trains nothing", "; ".join(idle)) if idle else Tried(said, "runs", "; ".join(partly))


def _alike(error: str) -> str:
    return re.sub(r"\d+", "0", error)[:120]


def _ended(path: Path, file: str, text: str) -> dict[str, Any]:
    """How a program ends that stands beside its other files, with one of them edited."""
    import fresh

    with tempfile.TemporaryDirectory() as folder:
        for beside in path.parent.glob("_*.py"):
            shutil.copy(beside, folder)
        shutil.copy(path, folder)
        Path(folder, file).write_text(text, encoding="utf-8")
        done = fresh.run([sys.executable, __file__, "--run", str(Path(folder, path.name))], timeout=60, torn_down=False)
    if _MARK not in done.stdout:
        return {"error": f"status {done.returncode}: {done.stderr[-300:]}", "warnings": [], "optimizers": []}
    ended: dict[str, Any] = json.loads(done.stdout.rpartition(_MARK)[2])
    return ended


def run(file: str) -> dict[str, Any]:
    """Run a program; return its error and warnings, and how many of the parameters of each optimizer were trained."""
    import torch
    from torch.optim.optimizer import register_optimizer_step_post_hook

    held: dict[torch.optim.Optimizer, set[int]] = {}

    def note(optimizer: torch.optim.Optimizer, *_: object) -> None:
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        moved = (k for k, p in enumerate(parameters) if p.grad is not None and bool(p.grad.norm() != 0))
        held.setdefault(optimizer, set()).update(moved)

    register_optimizer_step_post_hook(note)
    torch.manual_seed(0)
    random.seed(0)
    torch.set_warn_always(True)
    sys.path[0] = str(Path(file).parent)
    sys.argv = [file]
    error = None
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            runpy.run_path(file, run_name="__main__")
        except Exception as caught:
            error = f"{type(caught).__name__}: {caught}"
    sizes = {each: sum(len(group["params"]) for group in each.param_groups) for each in held}
    return {
        "error": error,
        "warnings": [str(each.message) for each in warned],
        "optimizers": [(type(each).__name__, sizes[each], len(moved)) for each, moved in held.items()],
    }


def main(wanted: list[str]) -> None:
    from accept import accepted
    from scripts import scripts

    verbose, wanted = "-v" in wanted, [each for each in wanted if each != "-v"]
    counts: Counter[str] = Counter()
    concrete = fixes = 0
    for script in scripts():
        if wanted and not any(each in script.name for each in wanted):
            continue
        for given in dict.fromkeys(advice(accepted(script, watched)) for watched in (False, True)):
            if given is None:
                continue
            outcomes = [*tries(script.path, given)]
            fixes += 1
            concrete += any(each.outcome != "prose" for each in outcomes)
            counts.update(each.outcome for each in outcomes)
            for each in outcomes:
                if each.failed or verbose or each.detail:
                    print(f"{script.name}: {each.outcome}: {each.said}\n    {each.detail}", flush=True)
            if all(each.outcome == "prose" for each in outcomes):
                print(f"{script.name}: all prose: {given.fix}", flush=True)
    print(f"{concrete} of {fixes} fixes are concrete; of their alternatives {dict(counts)}")


if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    if sys.argv[1:2] == ["--run"]:
        print("\n" + _MARK + json.dumps(run(sys.argv[2])))
    else:
        main(sys.argv[1:])
