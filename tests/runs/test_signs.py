"""Signs of histograms: written beside all counts, merged, and told from those of runs that have none."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from mini_reader import read_table

from backsight.runs import BINS, STATISTICS, RunWriter, blocks, columns, open_run
from backsight.runs.schema import TABLES

EARLIER = Path(__file__).parent / "recordings" / "format-1-by-0.1.0"


def rows_of(count: int) -> np.ndarray:
    rows = np.zeros(1, STATISTICS)
    rows["count"] = count
    return rows


def table(**changed: object) -> dict[str, np.ndarray]:
    """A table of histograms of three rows, five negative numbers of nine in each of two bins."""
    counts = np.zeros((3, BINS), "<u4")
    counts[:, 40:42] = 9
    held = {name: np.zeros(3, "<i8") for name, kind in TABLES["H"] if kind == "<i8"}
    held |= {"step": np.arange(3), "sampled": np.full(3, 18), "signed": np.ones(3, "<i8")}
    return {**held, "counts": counts, "negatives": counts * 5 // 9, **changed}


def read(block: bytes) -> dict[str, np.ndarray]:
    return blocks.unpacked([blocks.block_at(memoryview(block), 0)])


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    counts=arrays("<u4", (2, 3, BINS), elements=st.integers(0, 1 << 20), fill=st.just(0)),
    shares=arrays("<f8", (2, 3, BINS), elements=st.floats(0, 1)),
    close=st.booleans(),
)
def test_signs_of_ranks_add_up_and_are_never_more_than_all(tmp_path_factory, counts, shares, close) -> None:
    path = tmp_path_factory.mktemp("signs") / "run"
    negatives = (counts * shares).astype("<u4")
    for rank in range(2):
        writer = RunWriter(path, rank=rank, world=2)
        tensor = writer.tensor("w", "grad")
        for step in range(3):
            count = max(int(counts[rank, step].sum()), 1)
            writer.append(
                step,
                [tensor],
                rows_of(count),
                histograms=counts[rank, step, None],
                negatives=negatives[rank, step, None],
            )
            writer.flush()
        if close:
            writer.close()
    found = open_run(path).histograms("w")
    assert found.signed.all()
    assert (found.negatives == negatives.sum(axis=0)).all()
    assert (found.negatives <= found.counts).all()
    assert (found.counts == counts.sum(axis=0)).all()


def test_signs_of_which_one_rank_has_none_are_not_known(tmp_path: Path) -> None:
    counts = np.ones((1, BINS), "<u4")
    for rank in range(2):
        writer = RunWriter(tmp_path / "run", rank=rank, world=2)
        signs = {} if rank else {"negatives": counts}
        writer.append(0, [writer.tensor("w", "grad")], rows_of(64), histograms=counts, **signs)
        writer.close()
    run = open_run(tmp_path / "run")
    assert run.histograms("w").signed.tolist() == [False]
    assert run.histograms("w", rank=0).signed.tolist() == [True]


def test_steps_with_and_without_signs_stay_apart_when_they_are_sorted(tmp_path: Path) -> None:
    counts = np.full((1, BINS), 2, "<u4")
    writer = RunWriter(tmp_path / "run")
    tensor = writer.tensor("w", "grad")
    for step in range(4):
        signs = {"negatives": counts // 2} if step % 2 else {}
        writer.append(step, [tensor], rows_of(128), histograms=counts, **signs)
    writer.close()
    found = open_run(tmp_path / "run").histograms("w")
    assert found.signed.tolist() == [False, True, False, True]
    assert found.negatives.sum(axis=1).tolist() == [0, 64, 0, 64]


@pytest.mark.parametrize("name", ["closed", "killed", "trained"])
def test_an_earlier_run_has_no_signs_and_all_the_rest(name: str, tmp_path: Path) -> None:
    shutil.copytree(EARLIER / name, tmp_path / name)
    run = open_run(tmp_path / name)
    tensor = run.tensors[0]
    found = run.histograms(tensor.name, kind=tensor.kind)
    assert len(found) == len(run.steps)
    assert found.counts.sum() > 0
    assert not found.signed.any()
    assert not found.negatives.any()
    assert (run.damage.blocks, run.damage.lines) == (0, 0)


def test_a_reader_that_knows_no_signs_skips_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What format 1 has promised since it was first written: unknown columns come last, and are ignored."""
    expected = table()
    block = blocks.packed("H", expected)
    monkeypatch.setitem(blocks.TABLES, "H", TABLES["H"][:5])
    monkeypatch.setattr(blocks, "LATER", {})
    found = read(block)
    assert list(found) == ["tensor", "step", "call", "sampled", "counts"]
    assert (found["counts"] == expected["counts"]).all()


def test_without_signs_a_block_is_what_it_was(tmp_path: Path) -> None:
    bare = table(signed=np.zeros(3, "<i8"), negatives=np.zeros((3, BINS), "<u4"))
    block = blocks.packed("H", bare)
    assert blocks.block_at(memoryview(block), 0).columns == 5
    assert not read(block)["signed"].any()


@pytest.mark.parametrize(
    "changed",
    [
        {"negatives": np.full((3, BINS), 10, "<u4")},
        {"signed": np.array([1, -1, 1])},
        {"signed": np.array([1, 1 << 62, 1])},
    ],
    ids=["more negatives than numbers", "a negative sign", "an absurd sign"],
)
def test_impossible_signs_are_damage(changed: dict[str, np.ndarray]) -> None:
    with pytest.raises(columns.NotAColumn):
        read(blocks.packed("H", table(**changed)))


def test_damaged_signs_are_told_and_the_other_blocks_are_read(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "run")
    tensor = writer.tensor("w", "grad")
    for step in range(3):
        counts = np.full((1, BINS), step + 1, "<u4")
        writer.append(step, [tensor], rows_of(64), histograms=counts, negatives=counts)
        writer.flush()
    path = tmp_path / "run" / "rank-00000" / "000000.live"
    held = bytearray(path.read_bytes())
    block = [each for each in blocks.scan(bytes(held)) if getattr(each, "table", "") == "H"][1]
    held[block.offset + block.length - 1] ^= 1  # the last byte of the negatives
    path.write_bytes(held)
    with pytest.warns(match="damaged"):
        run = open_run(tmp_path / "run")
        found = run.histograms("w")
    assert found.steps.tolist() == [0, 2]
    assert found.signed.all()
    assert run.damage.blocks + run.damage.torn > 0
    writer.close()


def test_the_document_alone_tells_how_to_read_signs(tmp_path: Path) -> None:
    counts = np.zeros((1, BINS), "<u4")
    counts[0, 3], counts[0, 50] = 300, 1
    writer = RunWriter(tmp_path / "run")
    writer.append(0, [writer.tensor("w", "grad")], rows_of(301), histograms=counts, negatives=counts // 3)
    writer.close()
    (row,) = read_table(tmp_path / "run" / "rank-00000", b"H")
    assert row["signed"] == 1
    assert [(k, n) for k, n in enumerate(row["negatives"]) if n] == [(3, 100)]


@pytest.mark.parametrize(
    ("negatives", "message"),
    [
        (np.ones((1, BINS - 1), "<u4"), r"negatives must be \[1, 64\]; it is \[1, 63\]"),
        (np.ones((1, BINS), "<u4"), "negatives counts numbers in bins in which histograms counts none"),
    ],
)
def test_signs_that_do_not_fit_are_refused(tmp_path: Path, negatives: np.ndarray, message: str) -> None:
    with RunWriter(tmp_path / "run") as writer, pytest.raises(ValueError, match=message):
        writer.append(
            0,
            [writer.tensor("w", "grad")],
            rows_of(1),
            histograms=np.zeros((1, BINS), "<u4"),
            negatives=negatives,
        )
