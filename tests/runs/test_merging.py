"""Rows of parts merge to the row of the whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from written import magnitudes, measured

from backsight.runs import DERIVED, STATISTICS, open_run
from backsight.runs.merging import merged, merged_values
from backsight.runs.writer import RunWriter

PART = arrays("<f4", st.integers(0, 30), elements=st.floats(-1e6, 1e6, width=32) | st.sampled_from([np.nan, np.inf, 0]))


def columns(rows: np.ndarray) -> dict[str, np.ndarray]:
    zeros = {name: np.zeros(len(rows), "<i8") for name in ("tensor", "step", "call", "order")}
    return {**zeros, **{name: rows[name].copy() for name in STATISTICS.names}}


@given(st.lists(PART, min_size=1, max_size=5))
def test_parts_merge_to_the_whole(parts: list[np.ndarray]) -> None:
    found = merged(columns(np.concatenate([measured(part) for part in parts])), ("step",))
    whole = columns(measured(np.concatenate(parts)))
    for name in ("count", "zeros", "nans", "infs"):
        assert found[name][0] == whole[name][0]
    for stat in ("mean", "std", "min", "max", "absmax", "l2", "zero_fraction"):
        np.testing.assert_allclose(DERIVED[stat](found), DERIVED[stat](whole), rtol=1e-9, atol=1e-6)
    assert found["ranks"][0] == len(parts)


@given(PART)
def test_a_group_of_one_is_left_as_it_is(part: np.ndarray) -> None:
    row = columns(measured(part))
    found = merged(row, ("step",))
    assert all(found[name].tobytes() == row[name].tobytes() for name in row)


def test_a_large_offset_cancels_nothing() -> None:
    rng = np.random.default_rng(0)
    parts = [rng.normal(1e8, 1, 1000) for _ in range(7)]
    found = merged(columns(np.concatenate([measured(part) for part in parts])), ("step",))
    assert DERIVED["std"](found)[0] == pytest.approx(np.concatenate(parts).std(ddof=1), rel=1e-9)


def test_derived_statistics_are_those_of_the_numbers() -> None:
    values = np.array([3.0, -4.0, 0.0, np.nan, np.inf, -np.inf], "f4")
    row = columns(measured(values))
    found = {name: DERIVED[name](row)[0] for name in DERIVED}
    assert found["count"] == 6
    assert found["mean"] == pytest.approx(-1 / 3)
    assert found["std"] == pytest.approx(np.std([3, -4, 0], ddof=1))
    assert (found["min"], found["max"], found["absmax"], found["l2"]) == (-4, 3, 4, pytest.approx(5))
    assert (found["zeros"], found["nans"], found["infs"], found["nonfinite"]) == (1, 1, 2, 3)
    assert found["zero_fraction"] == pytest.approx(1 / 6)


def test_where_nothing_is_finite_there_is_no_mean() -> None:
    row = columns(measured(np.array([np.nan, np.inf])))
    assert all(np.isnan(DERIVED[name](row)[0]) for name in ("mean", "std", "min", "max", "absmax", "l2"))


@pytest.mark.parametrize(("merge", "value"), [("sum", 7), ("min", 3), ("max", 4), ("norm", 5)])
def test_metrics_merge_as_they_say(merge: str, value: float) -> None:
    rows = {"step": np.zeros(2, "i8"), "value": np.array([3.0, 4.0])}
    assert merged_values(rows, ("step",), merge)["value"].tolist() == [value]


def test_metrics_that_may_not_merge_and_disagree_give_no_number() -> None:
    rows = {"step": np.array([0, 0, 1, 1]), "value": np.array([3.0, 4.0, 2.0, 2.0])}
    found = merged_values(rows, ("step",), "none")["value"]
    assert np.isnan(found[0])
    assert found[1] == 2


def test_ranks_merge_when_read(path: Path) -> None:
    rng = np.random.default_rng(1)
    shards = [rng.normal(size=50 + 10 * k).astype("f4") for k in range(4)]
    for rank, shard in enumerate(shards):
        with RunWriter(path, rank=rank, world=4) as writer:
            if rank == 2:
                writer.tensor("only here", "weight")  # numbers differ from rank to rank
            ids = [writer.tensor("w", "weight", "", shard.shape, "float32")]
            ids.append(writer.tensor("bias", "weight", replicated=True))
            rows = np.concatenate([measured(shard), measured(shards[0])])
            counts = np.concatenate([magnitudes(shard), magnitudes(shards[0])])
            writer.append(0, ids, rows, histograms=counts)
    run = open_run(path)
    whole = np.concatenate(shards)
    held = run.frame(tensor="w", as_="numpy")
    assert (held["count"][0], held["ranks"][0]) == (whole.size, 4)
    assert held["std"][0] == pytest.approx(whole.astype("f8").std(ddof=1))
    assert (run.histograms("w").counts == magnitudes(whole)).all()
    assert run.histograms("w").sampled.tolist() == [whole.size]
    assert run.frame(tensor="bias", as_="numpy")["count"].tolist() == [50]
    assert run.frame(tensor="w", rank=3, as_="numpy")["count"].tolist() == [80]
    assert run.ranks == (0, 1, 2, 3)
    assert run.world == 4
