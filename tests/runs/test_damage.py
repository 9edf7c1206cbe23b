"""Torn tails and flipped bits: what is whole is read, what is not is counted, and no number is ever wrong."""

from __future__ import annotations

import random
import warnings
from pathlib import Path

import pytest
from written import write, wrong_numbers

from backsight.runs import Damage, DamagedRun, NotARun, Run, RunWarning, RunWriter, open_run
from backsight.runs.blocks import scan


def segment(path: Path) -> Path:
    return next(found for found in (path / "rank-00000").iterdir() if found.suffix in (".live", ".sorted"))


def read(path: Path) -> tuple[Run, list[int]]:
    run = open_run(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RunWarning)
        return run, sorted(set(run.frame(as_="numpy")["step"].tolist()))


def test_a_tail_torn_at_any_byte_costs_the_last_step_and_is_counted(path: Path) -> None:
    write(path, 3, close=False)
    file = segment(path)
    data = file.read_bytes()
    last_two = list(scan(data))[-2:]  # the steps and the rows of the last flush
    for size in range(last_two[0].offset, len(data)):
        file.write_bytes(data[:size])
        run, steps = read(path)
        assert steps == [0, 1]
        assert wrong_numbers(run) == 0
        begins = {block.offset for block in last_two}
        assert run.damage == Damage(torn=int(size not in begins))


def test_what_is_written_after_a_torn_place_is_read(path: Path) -> None:
    write(path, 2, close=False)
    file = segment(path)
    data = file.read_bytes()
    middle = list(scan(data))[-1].offset + 40
    file.write_bytes(data[:middle] + data)
    run, steps = read(path)
    assert steps == [0, 1]
    assert run.damage.blocks == 1


@pytest.mark.parametrize("close", [False, True], ids=["live", "sorted"])
@pytest.mark.slow
def test_flipped_bits_never_give_a_wrong_number(path: Path, close: bool) -> None:
    write(path, 4, close=close)
    files = sorted(found for found in (path / "rank-00000").iterdir())
    random.seed(0)
    for file in files:
        data = file.read_bytes()
        places = range(len(data) * 8)
        for at in random.sample(places, min(400, len(places))):
            bad = bytearray(data)
            bad[at // 8] ^= 1 << at % 8
            file.write_bytes(bad)
            try:
                run, _ = read(path)
            except (DamagedRun, NotARun):
                assert file.name == "manifest.json"
                continue
            assert wrong_numbers(run) == 0
            lost = len(run.frame(as_="numpy")["step"]) < 12
            assert not lost or run.damage != Damage()
        file.write_bytes(data)


def test_rows_of_tensors_whose_definition_was_cut_off_are_damage(path: Path) -> None:
    write(path, 4)
    lines = path / "rank-00000" / "tensors.jsonl"
    *kept, lost = lines.read_bytes().splitlines(keepends=True)
    lines.write_bytes(b"".join(kept))
    run, _ = read(path)
    assert len(run.frame(as_="numpy")["step"]) == 4 * len(kept)
    assert run.damage == Damage(lines=1)
    lines.write_bytes(b"".join(kept) + lost)
    assert run.damage == Damage(), "it had not been read yet"


def test_a_sorted_segment_without_its_index_is_read_by_its_blocks(path: Path) -> None:
    write(path, 4)
    file = segment(path)
    file.write_bytes(file.read_bytes()[:-20])
    run, steps = read(path)
    assert steps == [0, 1, 2, 3]
    assert wrong_numbers(run) == 0
    assert run.series("t1", "mean").values.tolist() == [step + 1 / 1024 for step in range(4)]


def test_what_a_sorted_segment_was_made_of_is_not_read_beside_it(path: Path) -> None:
    write(path, 4)
    folder = path / "rank-00000"
    (folder / "000000.live").write_bytes(b"left over by a kill")
    run, steps = read(path)
    assert steps == [0, 1, 2, 3]
    assert run.damage == Damage()


def test_damage_is_said_once(path: Path) -> None:
    write(path, 3, close=False)
    file = segment(path)
    data = bytearray(file.read_bytes())
    data[60] ^= 1
    file.write_bytes(data)
    run = open_run(path)
    with pytest.warns(RunWarning, match=r"is damaged: 1 blocks and 0 lines of it were skipped"):
        run.frame(as_="numpy")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run.frame(as_="numpy")


def test_a_missing_segment_is_counted(path: Path) -> None:
    write(path, 3)
    folder = path / "rank-00000"
    segment(path).rename(folder / "000001-000001.sorted")
    run, steps = read(path)
    assert steps == [0, 1, 2]
    assert run.damage.blocks == 1


def test_a_rank_with_a_damaged_manifest_does_not_cost_the_others(path: Path) -> None:
    for rank in range(2):
        write(path, 2, rank=rank, world=2)
    manifest = path / "rank-00000" / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"rank":0', b'"rank":7'))
    run, steps = read(path)
    assert run.ranks == (1,)
    assert steps == [0, 1]
    assert run.damage.blocks == 1


def test_without_any_manifest_that_can_be_read_the_run_is_damaged(path: Path) -> None:
    write(path, 2)
    manifest = path / "rank-00000" / "manifest.json"
    manifest.write_bytes(b"{}")
    with pytest.raises(DamagedRun, match=r"manifest\.json is damaged .* Restore it from a backup"):
        open_run(path)


def test_a_live_segment_with_damage_is_kept_as_it_is(path: Path) -> None:
    writer = write(path, 3, close=False)
    file = segment(path)
    data = bytearray(file.read_bytes())
    data[60] ^= 1
    file.write_bytes(data)
    writer.close()
    assert file.read_bytes() == data


def test_rows_of_a_tensor_whose_line_is_damaged_are_left_out(path: Path) -> None:
    with RunWriter(path) as writer:
        assert writer.tensor("t0", "weight") == 0
    write(path.parent / "whole", 3)
    lines = path.parent / "whole" / "rank-00000" / "tensors.jsonl"
    lines.write_bytes(lines.read_bytes().replace(b'"t1"', b'"t9"'))
    run, _ = read(path.parent / "whole")
    assert {tensor.name for tensor in run.tensors} == {"t0", "t2"}
    assert wrong_numbers(run) == 0
    assert run.damage.lines == 1
