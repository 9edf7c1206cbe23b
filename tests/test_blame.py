"""A warning shows the line of the program that it is about, however deep in backsight and PyTorch it arises."""

import contextlib
import os
import sys
import threading
import warnings

import pytest
import torch
from torch import nn

import backsight as bs
from backsight.blame import is_of_program, warn, warn_only
from backsight.memory.lines import source_here
from backsight.naming.roots import is_ours, is_user
from backsight.runs import RunWarning


def _line(text: str) -> int:
    with open(__file__, encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, 1) if line.rstrip().endswith(f"# {text}"))


def test_a_run_that_is_taken_is_told_at_the_line_that_records(tmp_path):
    model = nn.Linear(2, 1)
    for _ in range(2):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            with bs.record(model, run=tmp_path / "run"):  # records
                pass
    (warning,) = told
    assert (warning.filename, warning.lineno) == (__file__, _line("records"))
    assert str(warning.message) == (
        f"backsight: recording into {tmp_path / 'run-2'} instead. There is already a run in {tmp_path / 'run'}, and "
        "backsight never overwrites a run. Choose another name, or remove the folder. "
        f"open_run({str(tmp_path / 'run')!r}) still opens the earlier run."
    )


def test_a_trace_that_is_taken_is_told_at_the_line_that_traces(tmp_path):
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        with warnings.catch_warnings(record=True) as told, bs.trace(tmp_path / "trace"):
            warnings.simplefilter("always")
            model(torch.ones(1, 2)).sum().backward()
            optimizer.step()
    assert told and {each.filename for each in told} == {__file__}


def test_a_stopped_watch_is_told_at_the_line_at_which_it_failed():
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with bs.watch() as watch, pytest.warns(RuntimeWarning, match="stopped watching") as told:
        watch.steps.stepped = lambda optimizer: 1 / 0
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()  # steps
    assert (told[0].filename, told[0].lineno) == (__file__, _line("steps"))


def test_a_run_that_cannot_be_read_is_told_at_the_line_that_looks_for_runs(tmp_path):
    with bs.record(nn.Linear(2, 1), run=tmp_path / "run"):
        pass
    (tmp_path / "broken" / "rank-00000").mkdir(parents=True)
    with pytest.warns(RunWarning) as told:
        bs.runs_in(tmp_path)  # reads
    assert (told[0].filename, told[0].lineno) == (__file__, _line("reads"))


def test_a_context_manager_of_pythons_own_between_is_not_shown():
    @contextlib.contextmanager
    def entering():
        yield

    stack = contextlib.ExitStack()
    stack.callback(warn, "told", UserWarning)
    with pytest.warns(UserWarning, match="told") as told, entering():
        stack.close()  # closes
    assert (told[0].filename, told[0].lineno) == (__file__, _line("closes"))


def test_a_thread_that_runs_no_line_of_the_program_shows_none(tmp_path):
    with pytest.warns(UserWarning, match="told") as told:
        thread = threading.Thread(target=warn, args=("told", UserWarning))
        thread.start()
        thread.join()
    assert "threading" not in told[0].filename and "backsight" not in told[0].filename


def test_where_warnings_are_errors_the_text_is_printed(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_only("told", UserWarning)
    assert capsys.readouterr().err == "told\n"


def test_the_script_that_starts_backsight_is_none_of_the_programs():
    launcher = os.path.join(os.path.abspath("bin"), "backsight")
    names = {"__name__": "__main__", "source_here": source_here, "is_user": is_user, "frame": sys._getframe}
    exec(compile("line, user = source_here(), is_user(frame())", launcher, "exec"), names)
    assert names["line"].startswith("test_blame.py:") and not names["user"]
    assert is_ours(launcher) and not is_of_program(launcher)
    assert is_of_program(launcher + ".py")
