"""`backsight run --watch LEVEL`: how closely a script is watched."""

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
def test_the_program_ends_as_it_would_under_python(bench, level):
    bench.write("train.py", SCRIPT)
    option = [] if level is None else [f"--watch={level}"]
    plain, watched = bench.forked.python("train.py"), bench.observed(*option, "train.py")
    said = watched.err.removeprefix(plain.err)
    assert plain.status == watched.status == 1
    assert watched.err.startswith(plain.err), "the traceback is the program's own"
    assert "backsight explains" in said and "train.py:7" in said and "kept[0] = 0" in said


def test_another_level_is_refused(capsys):
    from backsight.cli import main

    with pytest.raises(SystemExit):
        main(["run", "--watch=everything", "train.py"])
    assert "invalid choice: 'everything'" in capsys.readouterr().err
