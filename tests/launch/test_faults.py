"""A fault in any function of ours that a training reaches under `backsight run`: the training is as without us."""

import json
import subprocess
import sys

import pytest
from surroundings import HERE, environment


@pytest.mark.parametrize("kind", [pytest.param("ZeroDivisionError", marks=pytest.mark.long), "SystemExit"])
@pytest.mark.parametrize(
    ("near", "far"), [pytest.param(90, 1600, id="some"), pytest.param(1, 3, id="many", marks=pytest.mark.long)]
)
@pytest.mark.slow
def test_no_fault_of_ours_is_one_of_the_training(kind, near, far):
    command = [sys.executable, str(HERE / "faulty.py"), kind, str(near), str(far)]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment({}), cwd=HERE)
    assert ended.returncode == 0, ended.stderr
    *different, count = map(json.loads, ended.stdout.splitlines())
    assert count > 10
    assert different == []
