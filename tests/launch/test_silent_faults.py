"""`backsight run` on trainings that go wrong and raise nothing, and on their neighbours that are in order."""

import re

import pytest
from silent_faults import FAULTS, HEAD
from silent_healthy import HEALTHY


def said(bench, source):
    bench.write("train.py", HEAD + source.lstrip("\n"))
    ended = bench.observed("train.py")
    assert ended.status == 0, ended.err
    return ended.err


@pytest.mark.parametrize("name", FAULTS)
def test_a_silent_fault_is_told_once_with_its_line(bench, name):
    err = said(bench, FAULTS[name])
    line = next(number for number, text in enumerate(f"{HEAD}{FAULTS[name].lstrip()}".splitlines(), 1) if "#!" in text)
    assert re.findall(r"^warning (BS\d+)", err, re.MULTILINE) == re.findall(r"BS\d+", name), err
    assert f"train.py:{line}" in err


@pytest.mark.parametrize("name", HEALTHY)
def test_nothing_is_said_of_a_training_that_is_in_order(bench, name):
    assert "nothing found" in said(bench, HEALTHY[name])


def test_a_straight_through_estimator_is_not_to_be_taken_apart(bench):
    err = said(bench, FAULTS["BS102 a codebook that only its estimator uses"])
    assert "fix: Use q itself in a loss term, not z + (q - z).detach()" in err
    assert "Remove" not in err
