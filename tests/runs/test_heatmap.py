"""One statistic of many tensors over the steps: the same whether it is read row by row or from stored summaries."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mini_reader import read_table
from written import measured, rows_of, write

from backsight.runs import NotInRun, Run, RunWriter, heatmap, open_run, outlet, tidying


def of_elements(stat: str, steps: list[list[np.ndarray]]) -> float:
    """What a cell over these steps shows, each given as the parts that it is made of: by numpy, from the numbers."""
    whole = [np.concatenate(parts).astype("f8") for parts in steps]
    together = np.concatenate(whole)
    if stat == "l2":
        return float(np.sqrt(np.mean([np.sum(step**2) for step in whole])))
    if stat == "zeros":
        return float(np.mean([np.sum(step == 0) for step in whole]))
    of = {"mean": np.mean, "min": np.min, "max": np.max, "std": lambda all_: np.std(all_, ddof=1)}
    return float(of[stat](together))


def recorded(path: Path, steps: int, ranks: int = 1, close: bool = True, seed: int = 0) -> list[list[np.ndarray]]:
    """Write gradients (the last of two calls counts) and outputs (both do), and return the latter: [step][part]."""
    rng = np.random.default_rng(seed)
    outputs: list[list[np.ndarray]] = [[] for _ in range(steps)]
    for rank in range(ranks):
        writer = RunWriter(path, rank=rank, world=ranks)
        out, grad = writer.tensor("fc", "output", "fc", (4,)), writer.tensor("fc.weight", "grad", "fc", (4,))
        for step in range(steps):
            calls = [rng.normal(step, 1, 4).astype("f4").round(1) for _ in range(2)]
            outputs[step] += calls
            rows = np.concatenate([measured(each) for each in (*calls, calls[0], calls[0] + calls[1])])
            writer.append(step, [out, out, grad, grad], rows, call=[0, 1, 0, 1])
            writer.flush()
        if close:
            writer.close()
    return outputs


@pytest.mark.parametrize("stat", ["mean", "std", "min", "max", "l2", "zeros"])
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("most", [10**6, 50])
def test_a_cell_says_what_the_numbers_of_its_steps_say(
    path: Path, monkeypatch: pytest.MonkeyPatch, stat: str, ranks: int, most: int
) -> None:
    monkeypatch.setattr(heatmap, "MOST_ROWS", most)  # so few that stored summaries are read
    outputs = recorded(path, 100, ranks)
    found = open_run(path).heatmap(stat, "output", columns=4)
    assert found.tensors == (("fc", "output"),)
    assert found.steps.tolist() == list(range(0, 100, found.stretch))
    expected = [of_elements(stat, outputs[at : at + found.stretch]) for at in found.steps.tolist()]
    np.testing.assert_allclose(found.values[0], expected, rtol=1e-6)


def test_of_a_gradient_that_is_accumulated_the_last_call_counts(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = recorded(path, 64)
    sums = [[first + second] for first, second in outputs]
    for most in (10**6, 10):
        monkeypatch.setattr(heatmap, "MOST_ROWS", most)
        found = open_run(path).heatmap("max", "grad", columns=2)
        np.testing.assert_allclose(found.values[0], [of_elements("max", sums[:32]), of_elements("max", sums[32:])])


@settings(max_examples=25)
@given(steps=st.integers(1, 200), flushes=st.integers(1, 40), columns=st.integers(1, 30), closed=st.booleans())
def test_stored_summaries_say_what_the_rows_say(
    tmp_path_factory: pytest.TempPathFactory, steps: int, flushes: int, columns: int, closed: bool
) -> None:
    path = tmp_path_factory.mktemp("runs") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outlet, "SEGMENT_FLUSHES", flushes)  # many segments, some of them live
        patch.setattr(tidying, "FAN", 3)
        writer = write(path, steps, close=closed)
        thread = writer._outlet._tidying
        if thread is not None:
            thread.join()
        run = open_run(path)
        rows = run.heatmap("l2", columns=columns)
        patch.setattr(heatmap, "MOST_ROWS", 0)
        coarse = run.heatmap("l2", columns=columns)
    for found in (rows, coarse):
        for row, column in np.ndindex(found.values.shape):
            at = int(found.steps[column])
            held = np.concatenate([rows_of(step, 3) for step in range(at, min(at + found.stretch, steps))])[row::3]
            squares = held["m2"] + held["count"] * held["mean"] ** 2
            assert found.values[row, column] == pytest.approx(np.sqrt(squares.mean()), rel=1e-9)


def test_what_is_not_finite_is_counted_in_its_column(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RunWriter(path) as writer:
        a, b = writer.tensor("a", "grad"), writer.tensor("b", "grad")
        for step in range(96):
            bad = [np.nan, np.inf, 1.0] if step == 40 else [1.0, 2.0, 3.0]
            writer.append(step, [a, b], np.concatenate([measured(np.array([1.0])), measured(np.array(bad))]))
    for most in (10**6, 10):
        monkeypatch.setattr(heatmap, "MOST_ROWS", most)
        found = open_run(path).heatmap("max", "grad", columns=3)
        assert found.nonfinite.tolist() == [[0, 0, 0], [0, 2, 0]]
        assert found.values[1].tolist() == [3, 3, 3]


def test_columns_are_as_wide_as_the_steps_are_apart(path: Path) -> None:
    with RunWriter(path) as writer:
        number = writer.tensor("a", "grad")
        for step in range(0, 1000, 50):
            writer.append(step, [number], measured(np.array([step, 1.0])))
    found = open_run(path).heatmap("max", columns=1000)
    assert (found.stretch, found.values.shape) == (50, (1, 20))
    assert not np.isnan(found.values).any()


def test_a_window_and_a_rank_may_be_asked_for(path: Path) -> None:
    recorded(path, 100, 2)
    run = open_run(path)
    found = run.heatmap("max", "grad", steps=slice(10, 20), columns=5)
    assert found.steps.tolist() == [10, 12, 14, 16, 18]
    alone = run.heatmap("max", "grad", rank=1, columns=100)
    series = run.series("fc.weight", "max", kind="grad", rank=1)
    assert alone.values[0].tolist() == series.values.tolist()


def test_tensors_of_changing_shape_are_one_row(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RunWriter(path) as writer:
        for step in range(64):
            number = writer.tensor("out", "output", None, (step % 3 + 1,))
            writer.append(step, [number], measured(np.full(step % 3 + 1, 2.0)))
    for most in (10**6, 10):
        monkeypatch.setattr(heatmap, "MOST_ROWS", most)
        found = open_run(path).heatmap("count", columns=1)
        assert found.values[0, 0] == pytest.approx(np.mean([step % 3 + 1 for step in range(64)]))


def test_a_metric_has_a_heatmap_too(path: Path) -> None:
    with RunWriter(path) as writer:
        number, gap = writer.tensor("a", "weight"), writer.metric("gap")
        for step in range(10):
            writer.append(step, [number], measured(np.ones(2)))
            writer.values(step, gap, [number], [float(step)])
    assert open_run(path).heatmap("gap", columns=5).values.tolist() == [[0.5, 2.5, 4.5, 6.5, 8.5]]


def test_sorted_segments_hold_the_summaries_that_the_format_describes(path: Path) -> None:
    outputs = recorded(path, 70)
    found = [row for row in read_table(path / "rank-00000", b"C") if row["tensor"] == 0 and row["stretch"] == 32]
    assert [(row["step"], row["steps"], row["count"]) for row in found] == [(0, 32, 256), (32, 32, 256), (64, 6, 48)]
    assert [row["max"] for row in found] == [
        of_elements("max", outputs[:32]),
        of_elements("max", outputs[32:64]),
        of_elements("max", outputs[64:]),
    ]


def test_an_older_run_without_summaries_reads_the_same(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(tidying, "coarse", lambda rows, several: iter(()))
        recorded(path, 128)
    assert not read_table(path / "rank-00000", b"C")
    rows = open_run(path).heatmap("l2", columns=4).values
    monkeypatch.setattr(heatmap, "MOST_ROWS", 10)
    np.testing.assert_allclose(open_run(path).heatmap("l2", columns=4).values, rows, rtol=1e-9)


def test_a_damaged_summary_is_made_again_from_the_rows(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(path, 100)
    monkeypatch.setattr(heatmap, "MOST_ROWS", 10)
    expected = open_run(path).heatmap("l2", columns=3).values
    segment = next((path / "rank-00000").glob("*.sorted"))
    data = bytearray(segment.read_bytes())
    at = data.index(b"BSB1C")
    while at >= 0:
        data[at + 40] ^= 1
        at = data.find(b"BSB1C", at + 1)
    segment.write_bytes(data)
    run = open_run(path)
    with pytest.warns(match="blocks"):
        np.testing.assert_allclose(run.heatmap("l2", columns=3).values, expected, rtol=1e-9)
    assert run.damage.blocks


def test_an_empty_run_has_an_empty_heatmap(path: Path) -> None:
    writer = RunWriter(path)
    writer.tensor("a", "grad")
    assert open_run(path).heatmap("l2").values.shape == (1, 0)
    writer.close()


def test_what_is_not_there_is_said(path: Path) -> None:
    recorded(path, 3)
    run: Run = open_run(path)
    with pytest.raises(NotInRun, match="no statistic 'nrm'"):
        run.heatmap("nrm")
    with pytest.raises(NotInRun, match="no tensors of kind 'state'"):
        run.heatmap("norm", "state")
    with pytest.raises(ValueError, match="at least 1, not 0"):
        run.heatmap("norm", columns=0)
