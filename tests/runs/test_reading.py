"""Reading a run: what was asked for, exactly, while it is written and afterwards."""

from __future__ import annotations

import pickle
import re
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from written import rows_of, write, wrong_numbers

from backsight.runs import BINS, STATISTICS, Damage, NonFinite, NotInRun, RunWriter, open_run, outlet
from backsight.runs.rank import Rank
from backsight.runs.series import thinned
from backsight.runs.tidying import tidy


@pytest.fixture
def run(path: Path):
    """Ten steps of fc.weight as weight and grad, and of an output that is called twice."""
    with RunWriter(path, config={"lr": 0.1}, environment={"torch": "2.13"}) as writer:
        weight = writer.tensor("fc.weight", "weight", "fc", (10,), "float32")
        grad = writer.tensor("fc.weight", "grad", "fc", (10,), "float32")
        output = writer.tensor("fc.output", "output", "fc", (4,), "float32")
        for step in range(10):
            rows = rows_of(step, 4)
            rows["nans"][2] = step >= 6
            writer.append(step, [output, output, grad, weight], rows, call=[0, 1, 0, 0])
            writer.mark(step, epoch=step // 5)
        writer.mark(9, loss=0.5)
        writer.event("dropped", step=4, queue=3)
        writer.tree([{"name": "", "type": "Net", "parameters": [], "children": []}])
    return open_run(path)


def test_a_frame_is_what_was_asked_for(run) -> None:
    frame = run.frame(tensor="fc.weight", kind="grad", stat=["mean", "norm"], steps=slice(2, 8, 3))
    assert list(frame.columns) == [
        "step",
        "tensor",
        "kind",
        "module",
        "call",
        "shape",
        "dtype",
        "ranks",
        "mean",
        "norm",
    ]
    assert frame["step"].tolist() == [2, 5]
    assert frame["mean"].tolist() == [2 + 2 / 1024, 5 + 2 / 1024]
    assert frame["shape"].tolist() == [(10,), (10,)]
    assert set(frame["kind"]) == {"grad"}
    assert len(run.frame()) == 40
    assert len(run.frame(steps=3)) == 4
    assert len(run.frame(tensor=re.compile(r"fc\..*t"), kind=("weight", "output"))) == 30


def test_rows_are_in_the_order_in_which_they_came_about(run) -> None:
    held = run.frame(steps=0, as_="numpy")
    assert list(zip(held["kind"], held["call"], strict=True)) == [
        ("output", 0),
        ("output", 1),
        ("grad", 0),
        ("weight", 0),
    ]


def test_frames_of_several_libraries_agree(run) -> None:
    plain, arrow, pandas = run.frame(as_="numpy"), run.frame(as_="arrow"), run.frame()
    assert list(plain) == arrow.column_names == list(pandas.columns)
    for name in ("step", "tensor", "mean", "dtype"):
        assert plain[name].tolist() == arrow[name].to_pylist() == pandas[name].tolist()
    with pytest.raises(ValueError, match="as_ must be"):
        run.frame(as_="excel")


def test_polars_if_it_is_there(run) -> None:
    pytest.importorskip("polars")
    plain, found = run.frame(as_="numpy"), run.frame(as_="polars")
    assert found.columns == list(plain)
    for name in ("step", "tensor", "kind", "mean"):
        assert found[name].to_list() == plain[name].tolist()
    assert [tuple(shape) for shape in found["shape"].to_list()] == plain["shape"].tolist()
    assert run.frame(as_="polars", steps=99).height == 0


def test_latest_is_the_newest_step(run) -> None:
    assert run.latest()["step"].unique().tolist() == [9]
    assert len(run.latest()) == 4


def test_a_series_takes_the_kind_from_the_statistic(run) -> None:
    found = run.series("fc.weight", "grad_norm")
    rows = rows_of(3, 4)[2:3]
    n = 1000
    assert found.values[3] == pytest.approx(np.sqrt(rows["m2"][0] + n * rows["mean"][0] ** 2))
    assert (found.kind, found.stat, found.total, found.missing) == ("grad", "norm", 10, 0)
    assert found.steps.tolist() == list(range(10))


def test_the_calls_of_a_step_merge_in_a_series(run) -> None:
    assert run.series("fc.output", "count").values.tolist() == [2000] * 10
    assert run.series("fc.output", "mean", steps=slice(4, 5)).values.tolist() == [4 + 0.5 / 1024]


@pytest.mark.parametrize("kind", ["grad", "weight", "buffer", "state", "update"])
def test_of_the_calls_of_one_tensor_the_last_of_each_rank_stands_for_the_step(path: Path, kind: str) -> None:
    counts = np.ones((3, BINS), "<u4") * np.array([[1], [2], [3]], "<u4")
    for rank in range(2):
        with RunWriter(path, rank=rank, world=2) as writer:
            calls = list(range(3 - rank))
            ids = [writer.tensor("w", kind, "", (1000,), "float32")] * len(calls)
            gap = writer.metric("gap", merge="sum")
            writer.append(0, ids, rows_of(0, len(ids)), call=calls, histograms=counts[calls], sampled=[64] * len(ids))
            writer.values(0, gap, ids, [1.0, 10.0, 100.0][: len(ids)], call=calls)
    held = open_run(path)
    assert held.series("w", "count", rank=0).values.tolist() == [1000]
    assert held.series("w", "mean", rank=0).values.tolist() == [2 / 1024]
    assert held.series("w", "mean").values.tolist() == [1.5 / 1024]
    assert held.series("w", "gap").values.tolist() == [110.0]
    assert held.histograms("w", rank=0).counts[0].tolist() == [3] * BINS
    assert held.frame(as_="numpy", rank=0)["call"].tolist() == [0, 1, 2]


def test_the_first_that_is_not_finite(run, path: Path) -> None:
    assert run.first_nonfinite() == NonFinite("fc.weight", "grad", "fc", 6, 0, 0, 1, 0)
    write(path.parent / "healthy", 2)
    assert open_run(path.parent / "healthy").first_nonfinite() is None


def test_of_one_step_the_row_that_came_first_is_the_first_not_finite(path: Path) -> None:
    with RunWriter(path) as writer:
        ids = [writer.tensor(name, "output", name) for name in ("late", "early")]
        rows = np.zeros(2, STATISTICS)
        rows["count"], rows["infs"] = 4, 1
        writer.append(0, ids[::-1], rows, call=[3, 0])
        writer.flush()
        assert open_run(path).first_nonfinite().tensor == "early"
    assert open_run(path).first_nonfinite() == NonFinite("early", "output", "early", 0, 3, 0, 0, 1)


def test_what_is_beside_the_rows(run) -> None:
    assert run.config == {"lr": 0.1}
    assert run.environment == {"torch": "2.13"}
    assert run.tree == [{"name": "", "type": "Net", "parameters": [], "children": []}]
    assert run.steps.tolist() == list(range(10))
    assert [mark.tags for mark in run.marks if mark.step == 9] == [{"epoch": 1}, {"loss": 0.5}]
    assert [(event.event, event.step, event.details) for event in run.events] == [("dropped", 4, {"queue": 3})]
    first = run.tensors[0]
    assert (first.name, first.kind, first.module, first.ranks) == ("fc.weight", "weight", "fc", (0,))
    assert run.damage == Damage()


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda run: run.frame(tensor="fc.wieght"), r"no tensor 'fc\.wieght'; did you mean 'fc\.weight'"),
        (lambda run: run.frame(kind="state"), r"no tensors of kind 'state'; it has grad, output, weight"),
        (lambda run: run.frame(stat="median"), r"no statistic 'median'\. Choose from absmax, count"),
        (lambda run: run.frame(rank=3), r"no rank 3; it has 0"),
        (lambda run: run.series("fc.weight", "mean"), r"recorded as grad, weight\. Choose one: kind='weight'"),
    ],
)
def test_what_is_not_there_is_said_with_what_is(run, ask, text: str) -> None:
    with pytest.raises(NotInRun, match=text):
        ask(run)


def test_steps_count_from_zero(run) -> None:
    with pytest.raises(ValueError, match="from 0 up"):
        run.frame(steps=slice(-5, None))


SERIES = arrays("<f8", st.integers(1, 400), elements=st.floats(-1e9, 1e9) | st.just(np.nan))


@given(SERIES, st.integers(4, 60))
def test_thinning_keeps_the_least_the_greatest_the_first_and_the_last(values: np.ndarray, points: int) -> None:
    steps = np.arange(len(values)) * 3
    at, kept = thinned(steps, values, points)
    assert len(at) <= points
    assert (np.diff(at) > 0).all()
    np.testing.assert_array_equal(values[at // 3], kept)
    assert (at[0], at[-1]) == (0, steps[-1])
    if not np.isnan(values).all():
        assert (np.nanmin(kept), np.nanmax(kept)) == (np.nanmin(values), np.nanmax(values))


def test_a_spike_of_one_step_stays_in_a_long_series(path: Path) -> None:
    with RunWriter(path) as writer:
        writer.tensor("w", "weight")
        rows = np.zeros(1, STATISTICS)
        rows["count"] = 1
        for step in range(30_000):
            rows["mean"] = 100 if step == 12_345 else step % 7
            writer.append(step, [0], rows)
    found = open_run(path).series("w", "mean", points=200)
    assert len(found) <= 200
    assert found.steps[found.values == 100].tolist() == [12_345]
    assert found.total == 30_000


def test_a_run_is_read_while_it_is_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlet, "SEGMENT_FLUSHES", 4)
    monkeypatch.setattr("backsight.runs.tidying.FAN", 3)
    done = threading.Event()

    def record() -> None:
        write(path, 400)
        done.set()

    thread = threading.Thread(target=record)
    thread.start()
    while not path.is_dir() or not list(path.glob("rank-*")):
        time.sleep(0.001)
    run, seen, readings = open_run(path), 0, 0
    while not done.is_set() or readings < 3:
        for reader in (run, open_run(path)):
            steps = reader.frame(tensor="t1", as_="numpy", stat="mean")["step"].tolist() if reader.tensors[1:] else []
            assert steps == list(range(len(steps)))
            assert len(steps) >= seen
            seen = len(steps)
        readings += 1
    thread.join()
    assert wrong_numbers(run) == 0
    assert run.steps.tolist() == list(range(400))
    assert run.damage == Damage()


def test_a_rank_that_was_killed_does_not_cost_the_others(path: Path) -> None:
    write(path, 10, rank=0, world=2)
    write(path, 4, rank=1, world=2, close=False)
    run = open_run(path)
    held = run.frame(tensor="t0", as_="numpy", stat="count")
    assert held["ranks"].tolist() == [2] * 4 + [1] * 6
    assert held["count"].tolist() == [2000] * 4 + [1000] * 6
    assert run.latest(as_="numpy")["ranks"].tolist() == [1, 1, 1]


def test_a_run_can_be_pickled(run) -> None:
    assert pickle.loads(pickle.dumps(run)).steps.tolist() == run.steps.tolist()


def test_several_threads_may_read_a_run_that_grows(path: Path) -> None:
    writer = RunWriter(path)
    tensor = writer.tensor("t", "weight")
    run, wrong = open_run(path), []

    def read() -> None:
        while not writer.closed:
            numbers = [event.details["number"] for event in run.events]
            steps = run.frame(as_="numpy")["step"].tolist()
            if len(set(numbers)) != len(numbers) or steps != list(range(len(steps))) or run.damage.blocks:
                wrong.append((numbers, steps, run.damage))
                return

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for step in range(300):
            writer.append(step, [tensor], np.zeros(1, STATISTICS))
            writer.event("step", number=step)
            writer.flush()
        writer.close()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not wrong


def test_a_damaged_segment_between_ones_that_are_being_sorted_is_read_once(path: Path, monkeypatch) -> None:
    monkeypatch.setattr("backsight.runs.outlet.tidy", lambda folder, below: None)
    monkeypatch.setattr("backsight.runs.outlet.SEGMENT_FLUSHES", 1)
    write(path, 3)
    folder = path / "rank-00000"
    with open(folder / "000001.live", "ab") as file:
        file.write(b"torn")
    rank, first = Rank(0, folder), []

    def answer(segment: object) -> str:
        if segment.path.name == "000001.live" and not first:
            first.append(segment)
            tidy(folder, 3)  # sorts what is before it and after it
        return segment.path.name

    assert rank._reading(answer) == ["000000-000000.sorted", "000001.live", "000002-000002.sorted"]


def test_a_column_is_called_as_it_was_asked_for(run) -> None:
    found = run.frame(stat=["norm", "l2"], as_="numpy")
    assert found["norm"].tolist() == found["l2"].tolist()
    assert "l2" not in run.frame(stat="norm", as_="numpy")


@pytest.mark.parametrize(
    ("tensor", "stat", "kind", "said"),
    [
        ("fc.weight", "grad_foo", None, r"there is no statistic 'foo'\. Choose from absmax, "),
        ("fc.weight", "foo", None, r"there is no statistic 'foo'\. Choose from absmax, "),
        ("fc.weight", "mean", None, r"recorded as grad, weight\. Choose one: kind='"),
        ("fc.output", "grad_norm", None, r"'fc\.output' was recorded as output\, not as that kind."),
        ("fc.wieght", "grad_norm", None, r"no tensor 'fc\.wieght'; did you mean 'fc\.weight'"),
    ],
)
def test_a_series_that_is_not_there_says_what_is_wrong(run, tensor, stat, kind, said) -> None:
    with pytest.raises(NotInRun, match=said):
        run.series(tensor, stat, kind=kind)


def test_a_kind_may_stand_in_the_statistic_and_beside_it(run) -> None:
    assert run.series("fc.weight", "grad_norm", kind="grad").kind == "grad"


def test_each_step_has_the_time_at_which_the_first_rank_has_ended_it(tmp_path):
    for rank, steps in ((0, 3), (1, 5)):
        write(tmp_path / "run", steps, rank=rank, world=2)
    run = open_run(tmp_path / "run")
    first, second = (Rank(k, tmp_path / "run" / f"rank-0000{k}").table("S")["time"].tolist() for k in (0, 1))
    steps, times = run.times()
    assert steps.tolist() == run.steps.tolist() == list(range(5))
    assert times.tolist() == [*map(min, first, second[:3]), *second[3:]]
