"""A run as a file of another program."""

from __future__ import annotations

import csv
import json
import struct
import sys
from pathlib import Path

import numpy as np
import pandas
import pytest

from backsight.runs import STATISTICS, Run, RunWriter, open_run
from backsight.runs.tensorboard import crc32c


@pytest.fixture
def run(path: Path) -> Run:
    with RunWriter(path) as writer:
        ids = [writer.tensor(name, "weight", "fc", shape, "float32") for name, shape in (("a,b", (2, 3)), ("c", None))]
        gap = writer.metric("gap")
        for step in range(3):
            rows = np.zeros(2, STATISTICS)
            rows["count"], rows["mean"], rows["nans"] = 6, step + 0.5, [0, 6]
            writer.append(step, ids, rows)
            writer.values(step, gap, ids[:1], [[1.0, step]])
    return open_run(path)


def test_csv(run: Run, tmp_path: Path) -> None:
    with open(run.export(tmp_path / "out.csv"), newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["tensor"], row["step"]) for row in rows] == [(name, str(k)) for name in ("a,b", "c") for k in range(3)]
    assert (rows[1]["mean"], rows[1]["shape"], rows[1]["gap[1]"], rows[1]["std"]) == ("1.5", "2x3", "1.0", "0.0")
    assert (rows[4]["mean"], rows[4]["shape"], rows[4]["gap[0]"]) == ("nan", "", "nan")


def test_json_lines(run: Run, tmp_path: Path) -> None:
    text = run.export(tmp_path / "out.jsonl").read_text()
    rows = [json.loads(line, parse_constant=pytest.fail) for line in text.splitlines()]
    assert (rows[2]["tensor"], rows[2]["shape"], rows[2]["mean"], rows[2]["gap[1]"]) == ("a,b", [2, 3], 2.5, 2.0)
    assert (rows[5]["mean"], rows[5]["nans"], rows[5]["gap[1]"]) == (None, 6, None)


def test_parquet(run: Run, tmp_path: Path) -> None:
    engine = pytest.importorskip("pyarrow.parquet")
    file = engine.ParquetFile(run.export(tmp_path / "out.parquet"))
    assert file.num_row_groups == 2
    table = file.read().to_pydict()
    assert table["tensor"] == ["a,b"] * 3 + ["c"] * 3
    assert table["shape"][0] == [2, 3]
    assert table["mean"][:3] == [0.5, 1.5, 2.5]


def test_by_rank_each_has_rows_of_its_own(tmp_path: Path) -> None:
    engine = pytest.importorskip("pyarrow.parquet")
    for rank in range(2):
        with RunWriter(tmp_path / "run", rank=rank, world=2) as writer:
            both, mine = writer.tensor("both", "weight", replicated=True), writer.tensor(f"of {rank}", "weight")
            gap = writer.metric("gap")
            rows = np.zeros(2, STATISTICS)
            rows["count"], rows["mean"] = 3, [7, rank]
            writer.append(0, [both, mine], rows)
            writer.values(0, gap, [mine], [rank + 0.5])
    run = open_run(tmp_path / "run")
    merged = engine.read_table(run.export(tmp_path / "merged.parquet")).to_pydict()
    assert (merged["tensor"], merged["ranks"]) == (["both", "of 0", "of 1"], [1, 1, 1])
    apart = engine.read_table(run.export(tmp_path / "apart.parquet", by_rank=True)).to_pydict()
    assert (apart["tensor"], apart["rank"]) == (["both", "both", "of 0", "of 1"], [0, 1, 0, 1])
    assert (apart["mean"], apart["gap"][2:]) == ([7, 7, 0, 1], [0.5, 1.5]) and "ranks" not in apart


def test_an_ending_that_is_not_known(run: Run, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"exported to \.csv, \.jsonl, \.parquet, but 'out\.xlsx' ends in '\.xlsx'"):
        run.export(tmp_path / "out.xlsx")


def test_an_export_that_fails_leaves_nothing(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("backsight.runs.export._write_object", fail)
    with pytest.raises(OSError, match="No space"):
        run.export(tmp_path / "out.jsonl")
    assert not list(tmp_path.glob("out*"))


def test_an_empty_run_exports(path: Path, tmp_path: Path) -> None:
    RunWriter(path).close()
    assert open_run(path).export(tmp_path / "out.jsonl").read_text() == ""


def test_the_checksum_of_tensorboard() -> None:
    vectors = {b"\0" * 32: 0x8A9136AA, b"\xff" * 32: 0x62A8AB43, bytes(range(32)): 0x46DD794E}  # RFC 3720, B.4
    for data, checksum in vectors.items():
        assert crc32c(np.frombuffer(data, "u1")[None]).tolist() == [checksum]


def records(data: bytes) -> list[bytes]:
    """The records of an event file, whose checksums agree."""
    found = []
    while data:
        (length,) = struct.unpack_from("<Q", data)
        record, rest = data[12 : 12 + length], data[12 + length + 4 :]
        for part, crc in ((data[:8], data[8:12]), (record, data[12 + length : 16 + length])):
            value = int(crc32c(np.frombuffer(part, "u1")[None])[0])
            assert struct.unpack("<I", crc)[0] == ((value >> 15 | value << 17) + 0xA282EAD8) % (1 << 32)
        found.append(record)
        data = rest
    return found


def test_tensorboard_gets_every_step(run: Run, tmp_path: Path) -> None:
    file = run.to_tensorboard(tmp_path / "board", stats=["mean", "gap[1]"])
    assert file.name.startswith("events.out.tfevents.")
    first, *events = records(file.read_bytes())
    assert b"brain.Event:2" in first
    tagged = [event for event in events if b"weight/a,b/mean" in event]
    assert len(tagged) == 3
    assert tagged[2].endswith(b"\x15" + struct.pack("<f", 2.5))
    assert tagged[2][9:11] == b"\x10\x02"
    assert len([event for event in events if b"weight/a,b/gap[1]" in event]) == 3


def test_tensorboard_itself_reads_it(run: Run, tmp_path: Path) -> None:
    board = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    held = board.EventAccumulator(str(run.to_tensorboard(tmp_path / "board").parent)).Reload()
    assert [event.value for event in held.Scalars("weight/a,b/mean")] == [0.5, 1.5, 2.5]


def test_tensorboard_gets_every_call_and_of_a_running_sum_the_last_beside(path: Path, tmp_path: Path) -> None:
    board = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    with RunWriter(path) as writer:
        output, grad = (writer.tensor("t", kind, shape=(2,), dtype="float32") for kind in ("output", "grad"))
        for step in range(2):
            rows = np.zeros(4, STATISTICS)
            rows["count"], rows["mean"] = 2, [1 + step, 2 + step, 3 + step, 4 + step]
            kept = 4 - step  # the second step has one gradient
            writer.append(step, [output, output, grad, grad][:kept], rows[:kept], call=[0, 1, 0, 1][:kept])
    held = board.EventAccumulator(str(open_run(path).to_tensorboard(tmp_path / "board", ["mean"]).parent)).Reload()
    said = {tag: [(event.step, event.value) for event in held.Scalars(tag)] for tag in held.Tags()["scalars"]}
    assert said == {
        "output/t/mean/call 0": [(0, 1), (1, 2)],
        "output/t/mean/call 1": [(0, 2), (1, 3)],
        "grad/t/mean": [(0, 4), (1, 4)],
        "grad/t/mean/call 0": [(0, 3), (1, 4)],
        "grad/t/mean/call 1": [(0, 4)],
    }


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_a_run_without_a_tensor_is_exported_too(path: Path, tmp_path: Path, ending: str) -> None:
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    with RunWriter(path) as writer:
        writer.mark(0, loss=1.0)
    assert open_run(path).export(tmp_path / f"out{ending}").is_file()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_metrics_of_several_kinds_stay_in_their_columns(path: Path, tmp_path: Path, ending: str) -> None:
    with RunWriter(path) as writer:
        weight, grad = (writer.tensor("w", kind, shape=(2,), dtype="float32") for kind in ("weight", "grad"))
        pair, single = writer.metric("pair"), writer.metric("single")
        row = np.zeros(1, STATISTICS)
        for tensor in (weight, grad):
            writer.append(0, [tensor], row)
        writer.values(0, pair, [weight], np.array([[1.0, 2.0]]))
        writer.values(0, single, [grad], np.array([3.0]))
    exported = tmp_path / f"rows.{ending}"
    open_run(path).export(exported)
    rows = (pandas.read_csv if ending == "csv" else pandas.read_parquet)(exported).set_index("kind")
    assert rows.loc["grad", "single"] == 3 and rows.loc["weight", ["pair[0]", "pair[1]"]].tolist() == [1, 2]
    assert rows.loc["grad", ["pair[0]", "pair[1]"]].isna().all() and np.isnan(rows.loc["weight", "single"])


def test_a_name_with_a_nul_in_it_is_escaped_in_csv(path: Path, tmp_path: Path) -> None:
    with RunWriter(path) as writer:
        writer.append(0, [writer.tensor("a\0b", "weight")], np.zeros(1, STATISTICS))
    text = open_run(path).export(tmp_path / "rows.csv").read_text(encoding="utf-8")
    assert "a\\0b" in text and "\0" not in text


def test_without_pyarrow_the_formats_that_need_none_are_offered(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'backsight\[runs\]'\. Or end the name in \.csv or \.jsonl\."):
        run.export(tmp_path / "out.parquet")
    assert list(tmp_path.glob("out*")) == []
