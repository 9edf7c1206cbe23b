"""Above the newest PyTorch that was tested `backsight run` works, and says so: in one line, once a day at most."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from backsight import _tested
from backsight.launch import newness

NEWER = f"{_tested.NEWEST[0]}.{_tested.NEWEST[1] + 1}.0.dev20990101+cpu"
TESTED = _tested.spelt(_tested.NEWEST)
LINE = f"backsight: PyTorch {NEWER} is newer than any version backsight was tested with ({TESTED})"

HEALTHY = f"""
import torch
torch.__version__ = "{NEWER}"
w = torch.nn.Parameter(torch.ones(2))
optimizer = torch.optim.SGD([w], lr=0.1)
for _ in range(3):
    loss = (w * w).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("trained")
"""
FAILS = HEALTHY + "loss.backward()\n"


@pytest.fixture
def cache(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CACHE_HOME": str(tmp_path / "cache")}


@pytest.fixture
def run(bench, cache):
    """Run a program under `backsight run` with these options; each program of a test has the same cache."""

    def run(program: str, *options: str, **env: str):
        return bench.observed(*options, str(bench.write("train.py", program)), env=cache | env)

    return run


@pytest.mark.needs()
def test_a_newer_pytorch_is_told_after_the_summary_and_the_program_is_watched_as_ever(run):
    ended = run(HEALTHY)
    summary, line = ended.err.splitlines()
    assert (ended.status, ended.out, line) == (0, "trained\n", LINE)
    assert summary.startswith("backsight: nothing found in 3 optimizer steps: ")


def test_it_is_told_once_a_day(run, cache):
    assert LINE in run(HEALTHY).err
    assert LINE not in run(HEALTHY).err
    stamp = Path(cache["XDG_CACHE_HOME"], "backsight", "newer-than-tested")
    stamp.write_text("2020-02-02\n")
    assert LINE in run(HEALTHY).err


def test_it_follows_what_is_explained(run):
    ended = run(FAILS)
    assert ended.status == 1 and "BS201" in ended.err
    assert ended.err.splitlines()[-1] == LINE


@pytest.mark.needs()
@pytest.mark.process
def test_it_is_told_where_backsight_could_not_even_begin_to_watch(bench, run):
    bench.write("sitecustomize.py", "import sys\nsys.modules['backsight.launch.first_steps'] = None\n")
    ended = run(HEALTHY, PYTHONPATH=str(bench.folder))
    first, last = ended.err.splitlines()
    assert first.startswith("backsight: not watching: ") and last == LINE


def test_it_is_not_told_by_request_nor_by_other_ranks_and_then_waits_for_who_asks(run):
    assert run(HEALTHY, "--quiet").err == ""
    assert LINE not in run(HEALTHY, RANK="1", WORLD_SIZE="2").err
    assert LINE in run(HEALTHY).err


def test_it_is_a_line_of_json_on_stderr_where_those_were_asked_for(run):
    ended = run(HEALTHY, "--json")
    assert ended.out == "trained\n"
    *_, last = map(json.loads, ended.err.splitlines())
    assert (last["kind"], last["text"]) == ("message", LINE.removeprefix("backsight: "))


def test_the_newest_that_was_tested_and_what_is_no_version_are_nothing_to_tell(run):
    assert "newer" not in run(HEALTHY.replace(NEWER, f"{TESTED}.9+cpu")).err
    assert "newer" not in run(HEALTHY.replace(f'"{NEWER}"', "None")).err


@pytest.mark.process
def test_a_program_without_pytorch_hears_nothing_of_it(run):
    assert run("print('no torch')").err == ""


@pytest.mark.parametrize("hurdle", ["a file in place of the folder", "a folder in place of the stamp", "bytes"])
@pytest.mark.needs()
def test_a_cache_that_cannot_be_used_does_no_harm(run, cache, hurdle):
    folder = Path(cache["XDG_CACHE_HOME"])
    folder.mkdir()
    if hurdle == "a file in place of the folder":
        (folder / "backsight").touch()
    else:
        (folder / "backsight").mkdir()
        stamp = folder / "backsight" / "newer-than-tested"
        stamp.mkdir() if hurdle != "bytes" else stamp.write_bytes(b"\xff\xfe")
    ended = run(HEALTHY)
    assert (ended.status, ended.out, len(ended.err.splitlines())) == (0, "trained\n", 1)


def test_a_relative_cache_is_none_as_the_specification_has_it(monkeypatch):
    monkeypatch.setattr(newness.sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    assert newness.cache() == Path.home() / ".cache" / "backsight"


@pytest.mark.parametrize(
    ("version", "newer"),
    [
        ("2.99.0", True),
        ("3.0", True),
        ("2.99.0a0+gitabc", True),
        ("2.6.0+cu124", False),
        ("unknown", False),
        ("", False),
    ],
)
def test_versions_are_compared_by_number(version, newer):
    assert _tested.newer_than_tested(version) is newer
