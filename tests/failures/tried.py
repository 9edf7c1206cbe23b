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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from backsight import Finding

_MARK = "what came of it: "


@dataclass(frozen=True)
class Tried:
    """What came of one alternative of a fix."""

    said: str
    outcome: str
    """`runs`, `does not fit`, `same error`, `other error` or `trains nothing`."""
    detail: str = ""

    @property
    def failed(self) -> bool:
        return self.outcome != "runs"


def tries(path: Path, finding: Finding) -> Iterator[Tried]:
    """Yield what comes of each alternative of a fix of which there are edits."""
    from backsight.source.edits import EditError, edited, in_words

    for alternative in finding.edits:
        said = "; ".join(map(in_words, alternative))
        try:
            after = edited(
                alternative, {each.file: Path(each.file).read_text(encoding="utf-8") for each in alternative}
            )
        except EditError as why:
            yield Tried(said, "does not fit", str(why))
            continue
        yield _judged(said, path, _ended(path, {Path(file).name: text for file, text in after.items()}))


def _judged(said: str, path: Path, end: dict[str, Any]) -> Tried:
    error: str | None = end["error"]
    idle = [f"{name} trains none of {size}" for name, size, moved in end["optimizers"] if not moved]
    partly = [f"{name} trains {moved} of {size}" for name, size, moved in end["optimizers"] if 0 < moved < size]
    if error is not None or end["warnings"]:
        before = _ended(path, {})
        if error is not None:
            same = before["error"] is not None and _alike(error) == _alike(before["error"])
            return Tried(said, "same error" if same else "other error", error)
        if before["error"] is None and {*map(_alike, before["warnings"])} <= {*map(_alike, end["warnings"])}:
            return Tried(said, "same error", end["warnings"][0])
    return Tried(said, "trains nothing", "; ".join(idle)) if idle else Tried(said, "runs", "; ".join(partly))


def _alike(error: str) -> str:
    return re.sub(r"\d+", "0", error)[:120]


def _ended(path: Path, edited: Mapping[str, str]) -> dict[str, Any]:
    """How a program ends that stands beside its other files, with some of them edited."""
    import fresh

    with tempfile.TemporaryDirectory() as folder:
        for beside in path.parent.glob("_*.py"):
            shutil.copy(beside, folder)
        shutil.copy(path, folder)
        for name, text in edited.items():
            Path(folder, name).write_text(text, encoding="utf-8")
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
    from running import told
    from scripts import scripts

    verbose, wanted = "-v" in wanted, [each for each in wanted if each != "-v"]
    counts: Counter[str] = Counter()
    concrete, fixes = 0, 0
    for script in scripts():
        if wanted and not any(each in script.name for each in wanted):
            continue
        every = [told(script, watched).finding for watched in (False, True)]
        for finding in {each.fix: each for each in every if each is not None}.values():
            fixes += 1
            concrete += bool(finding.edits)
            if not finding.edits:
                print(f"{script.name}: in words: {finding.fix}", flush=True)
            for each in tries(script.path, finding):
                counts[each.outcome] += 1
                if each.failed or verbose or each.detail:
                    print(f"{script.name}: {each.outcome}: {each.said}\n    {each.detail}", flush=True)
    print(f"{concrete} of {fixes} fixes are edits, too; of their alternatives {dict(counts)}")


if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    if sys.argv[1:2] == ["--run"]:
        print("\n" + _MARK + json.dumps(run(sys.argv[2])))
    else:
        main(sys.argv[1:])
