"""Which summaries of many steps a question about some of them needs."""

from __future__ import annotations

import numpy as np
import pytest

from backsight.runs.coarse import in_window


@pytest.mark.parametrize(
    ("first", "last", "expected"),
    [(31, 31, [0]), (32, 32, [32]), (31, 32, [0, 32]), (0, 0, [0]), (63, 90, [32]), (64, 90, [])],
)
def test_the_stretches_that_touch_a_window_are_kept(first: int, last: int, expected: list[int]) -> None:
    rows = {"step": np.array([0, 32]), "stretch": np.array([32, 32])}
    assert in_window(rows, first, last)["step"].tolist() == expected
