"""A run of many steps is read in parts, and says the same."""

import numpy as np
import pytest

import backsight as bs
from backsight.diagnosis.recordings import rows
from backsight.runs import STATISTICS, RunWriter, open_run

STEPS = 200


@pytest.fixture
def run(tmp_path):
    """A gradient that vanishes, one that is NaN now and then and then for good, and one of every seventh step."""
    with RunWriter(tmp_path / "run") as writer:
        numbers = [writer.tensor(name, "grad", "", (2, 2), "float32") for name in ("fading", "nan", "rare")]
        for step in range(STEPS):
            held = np.zeros(3, STATISTICS)
            held["count"], held["m2"] = 4, (10.0 ** (-step / 10), 1.0, 2.0)
            held["nans"][1] = 4 * (step in (20, 21, 60) or step > 150)
            chosen = slice(0, 3 if step % 7 == 3 else 2)
            writer.append(step, numbers[chosen], held[chosen])
            writer.mark(step, loss=1.0 if step < 151 else np.nan)
    return open_run(tmp_path / "run")


def read(run):
    return {tensor.name: each for tensor, each in rows.read(run, run.tensors, STEPS) if each is not None}


def test_it_has_the_same_rows(run, monkeypatch):
    whole = read(run)
    monkeypatch.setattr(rows, "LONG", 10)
    monkeypatch.setattr(rows, "STEPS_AT_ONCE", 33)
    for name, part in read(run).items():
        assert (part.began, len(part)) == (whole[name].began, len(whole[name]))
        for column in part.columns:
            np.testing.assert_array_equal(part[column], whole[name][column])
        np.testing.assert_array_equal(part.nonfinite["step"], whole[name].nonfinite["step"])


def test_only_tensors_that_are_finite_are_read_at_some_steps(run, monkeypatch):
    monkeypatch.setattr(rows, "LONG", 10)
    monkeypatch.setattr(rows, "MOST_STEPS", 40)
    monkeypatch.setattr(rows, "STEPS_AT_ONCE", 33)
    read_ = read(run)
    assert read_["fading"]["step"].tolist() == list(range(0, STEPS, 5))
    assert read_["nan"].nonfinite["step"].tolist() == [20, 21, 60, *range(151, STEPS)]
    assert read_["rare"]["step"].tolist() == list(range(3, STEPS, 7))


def test_it_has_the_same_findings(run, monkeypatch):
    whole = str(run.audit())
    monkeypatch.setattr(rows, "LONG", 10)
    assert str(bs.open_run(run.path).audit()) == whole
    assert "nan" in whole
