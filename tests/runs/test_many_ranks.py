"""Runs of very many ranks: what is the same on all is read once, and what nobody asked for is not read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from written import rows_of

from backsight.runs import NotInRun, Run, RunWriter, gathering, open_run

RANKS = 70
"""More than are merged unasked."""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each rank has a gradient of its own and the same weight; the last one has a tensor more, and stops earlier."""
    path = tmp_path_factory.mktemp("many") / "run"
    for rank in range(RANKS):
        last = rank == RANKS - 1
        with RunWriter(path, rank=rank, world=RANKS, job="one") as writer:
            ids = [writer.tensor("w", "weight", "m", (10,), "float32", replicated=True)]
            ids.append(writer.tensor("w", "grad", "m", (10,), "float32"))
            ids += [writer.tensor("last", "grad", "m", (10,), "float32")] if last else []
            for step in range(4 if last else 6):
                rows = rows_of(step, len(ids))
                rows["mean"][1:] += rank
                writer.append(step, ids, rows)
                writer.mark(step, loss=float(rank))
    return path


@pytest.fixture
def run(path: Path) -> Run:
    return open_run(path)


def test_every_tensor_says_which_ranks_have_it(run: Run) -> None:
    assert {(each.name, each.kind): each.ranks for each in run.tensors} == {
        ("w", "weight"): tuple(range(RANKS)),
        ("w", "grad"): tuple(range(RANKS)),
        ("last", "grad"): (RANKS - 1,),
    }


def test_one_rank_alone_is_a_run_of_its_rows(run: Run) -> None:
    alone = run.only(RANKS - 1)
    assert alone.ranks == (RANKS - 1,)
    assert alone.steps.tolist() == [0, 1, 2, 3]
    assert (
        alone.series("w", "mean", kind="grad").values.tolist()
        == run.series("w", "mean", kind="grad", rank=RANKS - 1).values.tolist()
    )
    assert alone.tags()[0]["loss"][1].tolist() == [float(RANKS - 1)] * 4
    with pytest.raises(NotInRun, match="no rank 99"):
        run.only(99)


def test_overviews_read_the_lowest_rank_and_nothing_of_the_others(path: Path, tmp_path: Path) -> None:
    run = open_run(path)
    assert run.overview.ranks == (0,)
    assert [each.name for each in run.overview.tensors] == ["w", "w"]
    assert run.overview.steps.tolist() == [0, 1, 2, 3, 4, 5]
    assert str(run.audit()).count(f"as rank 0 of {RANKS} recorded them") == 1


def test_a_run_of_few_ranks_is_its_own_overview(tmp_path: Path) -> None:
    for rank in range(2):
        RunWriter(tmp_path / "two", rank=rank, world=2, job="one").close()
    run = open_run(tmp_path / "two")
    assert run.overview is run


def test_the_steps_of_a_run_are_those_of_any_rank(run: Run) -> None:
    assert run.steps.tolist() == [0, 1, 2, 3, 4, 5]
    assert run.times()[0].tolist() == [0, 1, 2, 3, 4, 5]


def test_ranks_that_are_merged_some_at_a_time_give_what_all_at_once_give(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answers() -> list[np.ndarray]:
        frame = run.frame(as_="numpy")
        series = [run.series("w", stat, kind=kind).values for stat in ("mean", "l2") for kind in ("grad", "weight")]
        numbers = ("step", "ranks", "count", "mean", "std", "min", "max", "zeros")
        return [*series, *(frame[name] for name in numbers), run.heatmap("l2", "grad").values]

    whole = answers()
    monkeypatch.setattr(gathering, "ROWS_AT_ONCE", 100)
    for at_once, in_turn in zip(whole, answers(), strict=True):
        np.testing.assert_allclose(in_turn, at_once, rtol=1e-12)


def test_replicas_are_read_of_the_lowest_rank_however_many_there_are(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "ROWS_AT_ONCE", 10)
    held = run.frame("w", ["count"], "weight", as_="numpy")
    assert held["count"].tolist() == [1000] * 6
    assert held["ranks"].tolist() == [1] * 6
