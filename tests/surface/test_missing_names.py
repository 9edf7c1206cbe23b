"""A PyTorch that lacks one name costs the feature that needs it, and nothing else: tried with each name.

`make test` hides several at once, which different features need; `make test-all` each by itself.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from battery import JOBS

import backsight
from backsight.surface import FEATURES, needs

SOURCE = Path(backsight.__file__).parent
ROOMS = sorted(SOURCE.rglob("_torch.py"))
for room in ROOMS:
    importlib.import_module(".".join(("backsight", *room.relative_to(SOURCE).with_suffix("").parts)))

FEATURES_OF: dict[str, set[str]] = {}
for need in needs():
    if not need.why:
        FEATURES_OF.setdefault(need.path, set()).add(need.feature)

RUN = {
    "lines of operations",
    "exact watch",
    "tidy tracebacks",
    "saved tensors",
    "names from models",
    "calls of backward",
    "version counters",
}
"""What `backsight run` explains an in-place change with."""


pytestmark = pytest.mark.needs()  # what is compared with is a PyTorch that lacks nothing


@pytest.fixture(scope="module")
def ask():
    """Ask a process that has imported PyTorch and not backsight; each answer comes from a fork of it."""
    command = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("battery.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def asked(*without, left_out=()):
            process.stdin.write(json.dumps([without, left_out]) + "\n")
            process.stdin.flush()
            told = json.loads(process.stdout.readline())
            assert "broken" not in told, told["broken"]
            return told

        yield asked
        process.stdin.close()


@pytest.fixture(scope="module")
def whole(ask):
    return ask()


def check(told, whole, *paths):
    """Nothing may fail; what no lost feature touches is as it was; and each loss is said."""
    lost = set().union(*(FEATURES_OF[path] for path in paths))
    for name, (touched, _) in JOBS.items():
        if name not in told:
            continue
        how, given = told[name]
        assert how != "failed", f"{name}:\n{given}"
        if how == "refused":
            missing = [path for path in paths if FEATURES_OF[path] & touched]
            assert any(path in given for path in missing), f"{name} is refused without saying what is missing: {given}"
        if not touched & lost:
            assert told[name] == whole[name], f"{name} lost something without {', '.join(paths)}"
    run, before = told["run"], whole["run"]
    assert (run["status"], run["out"]) == (before["status"], before["out"])
    assert "error BS202" in run["err"]
    said, _, sentence = run["err"].rstrip("\n").rpartition("\n")
    assert sentence == f"backsight: {told['sentence']}"
    if not lost & RUN:
        assert f"{said}\n" == before["err"]
    for path in paths:
        assert [path, min(FEATURES_OF[path])] in told["missing"]
    assert {feature for _, feature in told["missing"]} == lost


def groups(size):
    """All names, each in one group; no two of a group serve the same feature, so that each is missed by itself."""
    made: list[list[str]] = []
    for path, features in FEATURES_OF.items():
        free = (each for each in made if len(each) < size)
        group = next((each for each in free if all(features.isdisjoint(FEATURES_OF[one]) for one in each)), None)
        if group is None:
            made.append(group := [])
        group.append(path)
    return made


@pytest.mark.slow
def test_whole_everything_works(whole):
    for name in JOBS:
        assert whole[name][0] == "gave", whole[name]
    assert whole["run"]["status"] == 1
    assert "backsight: PyTorch" not in whole["run"]["err"]


@pytest.mark.parametrize("paths", groups(6), ids=" ".join)
def test_names_that_are_missing_cost_their_features_alone(ask, whole, paths):
    """Tried with the jobs that lose something by them, and with one in four of the others."""
    lost = set().union(*(FEATURES_OF[path] for path in paths))
    turn = list(FEATURES_OF).index(paths[0])
    others = (name for name, (touched, _) in JOBS.items() if not touched & lost)
    check(ask(*paths, left_out=[name for number, name in enumerate(others) if (number + turn) % 4]), whole, *paths)


@pytest.mark.long
@pytest.mark.parametrize("path", FEATURES_OF)
def test_a_name_that_is_missing_costs_its_feature_alone_in_every_job(ask, whole, path):
    check(ask(path), whole, path)


def test_every_feature_can_be_lost_by_some_name():
    assert set().union(*FEATURES_OF.values()) == set(FEATURES)
