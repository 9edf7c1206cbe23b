"""`backsight run --watch LEVEL`: how closely a script is watched."""

import subprocess
import sys

import pytest

SCRIPT = """
import torch

weight = torch.ones(3, requires_grad=True)
h = (weight * 2).sigmoid()
kept = h.detach()
kept[0] = 0
h.sum().backward()
"""


@pytest.mark.parametrize("level", [None, "exact", "lines", "calls"])
def test_the_program_ends_as_it_would_under_python(level, tmp_path):

    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    option = [] if level is None else [f"--watch={level}"]
    plain, watched = (
        subprocess.run([sys.executable, *command, str(script)], capture_output=True, text=True, timeout=100)
        for command in ([], ["-m", "backsight", "run", *option])
    )
    said = watched.stderr.removeprefix(plain.stderr)
    assert plain.returncode == watched.returncode == 1
    assert watched.stderr.startswith(plain.stderr), "the traceback is the program's own"
    assert "backsight explains" in said and "train.py:7" in said and "kept[0] = 0" in said


def test_another_level_is_refused(capsys):
    from backsight.cli import main

    with pytest.raises(SystemExit):
        main(["run", "--watch=everything", "train.py"])
    assert "invalid choice: 'everything'" in capsys.readouterr().err
