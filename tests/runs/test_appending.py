"""What the writer does with rows that it cannot take, or cannot sort."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from written import rows_of, write, wrong_numbers

from backsight.runs import BINS, RunWriter, open_run, outlet


@pytest.mark.parametrize(
    "wrong",
    [{"call": [0, 1, 2]}, {"histograms": np.ones((2, 3))}, {"histograms": np.ones((2, BINS)), "sampled": [1] * 3}],
)
def test_of_rows_that_do_not_fit_together_nothing_is_kept(path: Path, wrong: dict[str, object]) -> None:
    with RunWriter(path) as writer:
        ids = [writer.tensor(name, "weight") for name in "ab"]
        writer.append(0, ids, rows_of(0, 2))
        with pytest.raises(ValueError):
            writer.append(1, ids, rows_of(1, 2), **wrong)
        with pytest.raises(ValueError):
            writer.values(2, writer.metric("gap"), ids, [1.0, 2.0], call=[0, 1, 2])
    held = open_run(path)
    assert held.steps.tolist() == [0] and len(held.frame(as_="numpy")["step"]) == 2


def test_a_segment_that_cannot_be_sorted_is_read_as_it_is_and_nothing_is_printed(
    path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(folder: Path, below: int) -> None:
        raise ValueError("inside backsight")

    monkeypatch.setattr(outlet, "tidy", fail)
    monkeypatch.setattr(outlet, "SEGMENT_FLUSHES", 2)
    write(path, 10)
    assert wrong_numbers(open_run(path)) == 0 and len(open_run(path).steps) == 10
    assert capfd.readouterr().err == ""
