"""Long trainings in order, of 2,000 optimizer steps and more: they run as under python, and nothing is said of them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import fresh
import pytest
from surroundings import environment

HERE = Path(__file__).with_name("long_healthy")
PROGRAMS = sorted(file.stem for file in HERE.glob("*.py"))
STEPS = 2000


def ended(*words: str) -> tuple[int, str, str]:
    """The status and both streams of python with these arguments, on one thread."""
    done = fresh.run([sys.executable, *words], cwd=HERE, env=environment({"OMP_NUM_THREADS": "1"}), timeout=300)
    return done.returncode, done.stdout, done.stderr


def test_there_are_five_kinds() -> None:
    assert PROGRAMS == ["experts", "gan", "maml", "ppo", "staged"]


@pytest.mark.long
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_long_training_in_order_runs_as_ever_and_nothing_is_said(name: str, tmp_path: Path) -> None:
    status, out, warned = ended(f"{name}.py")
    assert (status, warned) == (0, "")
    assert re.fullmatch(r"[0-9a-f]{64}", out.splitlines()[-1])  # of the weights

    for way in ([], ["--record", "--run", str(tmp_path / "run")]):
        observed, seen, said = ended("-m", "backsight", "run", *way, f"{name}.py")
        assert (observed, seen) == (status, out)
        (steps,) = re.findall(r"nothing found in ([\d,]+) optimizer steps\b.*: checked ", said)
        assert int(steps.replace(",", "")) >= STEPS

    audited, said, _ = ended("-m", "backsight", "runs", "audit", str(tmp_path / "run"))
    assert audited == 0
    assert "nothing found" in said
