"""docs/format.md says all that is needed: a reader written from it reads what backsight reads."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from mini_reader import objects, read_table

from backsight.runs import BINS, STATISTICS, RunWriter, open_run, outlet

STEP = st.tuples(
    st.integers(0, 1 << 61),
    arrays("<i8", (4, 4), elements=st.integers(0, (1 << 62) - 1)),
    arrays("<f8", (4, 4), elements=st.floats(allow_nan=False) | st.floats(width=32, allow_nan=False)),
    arrays("<u4", (4, BINS), elements=st.integers(0, (1 << 32) - 1), fill=st.just(0)),
    st.booleans(),
)


@pytest.mark.parametrize("unsigned", [False, True], ids=["signed", "without signs"])
@pytest.mark.parametrize("close", [False, True], ids=["live", "sorted"])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEP, min_size=1, max_size=6))
def test_another_reader_reads_the_same(
    tmp_path_factory: pytest.TempPathFactory, close: bool, unsigned: bool, steps: list
) -> None:
    path = tmp_path_factory.mktemp("format") / "run"
    writer = RunWriter(path)
    ids = [writer.tensor(f"t{k}", "grad") for k in range(4)]
    gap = writer.metric("gap", merge="sum")
    expected = {}
    for step, integers, floats, counts, flush in steps:
        rows = np.zeros(4, STATISTICS)
        for k, name in enumerate(("count", "zeros", "nans", "infs")):
            rows[name] = integers[:, k]
        for k, name in enumerate(("mean", "m2", "min", "max")):
            rows[name] = floats[:, k]
        below = None if unsigned else counts // 3
        writer.append(step, ids, rows, call=1, histograms=counts, sampled=[1, 2, 3, 4], negatives=below)
        writer.values(step, gap, ids, floats, call=1)
        writer.scalars(step, {"loss": floats[0, 0], "lr": floats[0, 1]})
        expected.update({(k, step): (rows[k], counts[k], floats[k]) for k in range(4)})
        if flush:
            writer.flush()
    writer.close() if close else writer.flush()
    rank = path / "rank-00000"
    read = {(row["tensor"], row["step"]): row for row in read_table(rank, b"R")}
    assert read.keys() == expected.keys()
    for key, row in read.items():
        assert tuple(row[name] for name in STATISTICS.names) == expected[key][0].item()
    histograms = {(row["tensor"], row["step"]): row for row in read_table(rank, b"H")}
    assert {key: row["counts"] for key, row in histograms.items()} == {
        key: held[1].tolist() for key, held in expected.items()
    }
    for key, row in histograms.items():
        assert ("negatives" in row) != unsigned
        if not unsigned:
            assert (row["signed"], row["negatives"]) == (1, (expected[key][1] // 3).tolist())
    values = {(row["tensor"], row["step"], row["element"]): row["value"] for row in read_table(rank, b"V")}
    assert values == {(*key, k): value for key, held in expected.items() for k, value in enumerate(held[2].tolist())}
    names = [line["name"] for line in objects(rank / "numbers.jsonl")]
    numbers = {(names[row["tensor"]], row["step"]): row["value"] for row in read_table(rank, b"N")}
    assert numbers == {
        (name, step): expected[0, step][2][k] for _, step in expected for k, name in enumerate(("loss", "lr"))
    }
    for name, (at, found) in open_run(path).numbers().items():
        assert dict(zip(at.tolist(), found.tolist(), strict=True)) == {
            step: value for (each, step), value in numbers.items() if each == name
        }
    ours = open_run(path).frame(as_="numpy", stat=["count", "gap"])
    assert ours["count"].tolist() == [
        row["count"] for row in sorted(read.values(), key=lambda r: (r["step"], r["order"]))
    ]
    writer.close()


def test_the_names_are_where_the_document_says(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlet, "SEGMENT_FLUSHES", 1)
    writer = RunWriter(path, config={"lr": 0.5}, environment={"torch": "2.13"})
    writer.tensor("fc.weight", "weight", "fc", (10, 64), "float32")
    writer.metric("gap")
    writer.scalars([3, 4], {"loss": [0.5, 0.25]})
    writer.mark(3, epoch=1)
    writer.event("dropped", step=3, queue=8)
    writer.tree([{"name": "", "type": "Net"}])
    for step in range(16):
        writer.append(step, [0], np.zeros(1, STATISTICS))
        writer.flush()
    writer.close()
    rank = path / "rank-00000"
    assert sorted(found.name for found in rank.iterdir()) == [
        "000000-000015.sorted",
        "events.jsonl",
        "manifest.json",
        "marks.jsonl",
        "metrics.jsonl",
        "numbers.jsonl",
        "tensors.jsonl",
        "tree.json",
    ]
    manifest = next(objects(rank / "manifest.json"))
    assert {name: manifest[name] for name in ("format", "version", "rank", "world")} == {
        "format": "backsight-run",
        "version": 1,
        "rank": 0,
        "world": 1,
    }
    assert (manifest["config"], manifest["environment"]) == ({"lr": 0.5}, {"torch": "2.13"})
    tensor = {"name": "fc.weight", "kind": "weight", "module": "fc", "shape": [10, 64], "dtype": "float32"}
    assert list(objects(rank / "tensors.jsonl")) == [{"id": 0, **tensor, "replicated": False}]
    assert list(objects(rank / "metrics.jsonl")) == [{"id": 0, "name": "gap", "merge": "none"}]
    assert list(objects(rank / "numbers.jsonl")) == [{"id": 0, "name": "loss"}]
    assert [(row["step"], row["value"]) for row in read_table(rank, b"N")] == [(3, 0.5), (4, 0.25)]
    assert list(objects(rank / "marks.jsonl")) == [{"step": 3, "tags": {"epoch": 1}}]
    assert next(objects(rank / "events.jsonl"))["details"] == {"queue": 8}
    assert next(objects(rank / "tree.json")) == {"tree": [{"name": "", "type": "Net"}]}
    for found in rank.glob("*.json*"):
        for line in found.read_text("ascii").splitlines():
            json.loads(line)
    assert [row["step"] for row in read_table(rank, b"S")] == list(range(16))


def test_the_trailer_points_to_the_index(path: Path) -> None:
    from mini_reader import blocks

    with RunWriter(path) as writer:
        for k in range(3):
            writer.tensor(f"t{k}", "weight")
        rows = np.zeros(3, STATISTICS)
        rows["count"], rows["nans"] = 5, [0, 1, 0]
        writer.append(7, [0, 1, 2], rows)
    data = next((path / "rank-00000").glob("*.sorted")).read_bytes()
    assert data[-4:] == b"BSIX"
    offset = int.from_bytes(data[-16:-8], "little")
    ((table, entries),) = blocks(data[offset:])
    assert table == b"I"
    found = [(row["table"], row["tensor"], row["rows"], row["first"], row["last"], row["nonfinite"]) for row in entries]
    assert found == [
        (ord("S"), 0, 1, 7, 7, -1),
        (ord("R"), 0, 1, 7, 7, -1),
        (ord("R"), 1, 1, 7, 7, 7),
        (ord("R"), 2, 1, 7, 7, -1),
    ]
    for row in entries:
        ((_, held),) = blocks(data[row["offset"] : row["offset"] + row["length"]])
        assert len(held) == row["rows"]
