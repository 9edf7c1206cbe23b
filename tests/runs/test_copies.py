"""A folder that is copied while it is written, as to an object store: what has arrived is read, and is true."""

from __future__ import annotations

import os
import random
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from written import rows_of, wrong_numbers

from backsight.runs import RunWarning, RunWriter, open_run, outlet


def copy(source: Path, target: Path, meanwhile: Callable[[], None], cut: random.Random | None = None) -> None:
    """Copy files one after the other, as they are listed at first; the last one may arrive in part only.

    A file that has vanished by the time of its turn is left out, and nothing is deleted: so do rsync and its like.
    """
    files = [Path(folder, name) for folder, _, names in os.walk(source) for name in names]
    for k, file in enumerate(files):
        if k % (len(files) // 5) == 0:
            meanwhile()
        try:
            data = file.read_bytes()
        except FileNotFoundError:
            continue
        if cut is not None and file == files[-1]:
            data = data[: cut.randrange(len(data) + 1)]
        to = target / file.relative_to(source)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(data)


def steps_in(path: Path) -> list[int]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RunWarning)
        return sorted(set(open_run(path).frame(as_="numpy")["step"].tolist()))


class Training:
    """Writes a step of `rows_of` into both ranks each time that it is asked to."""

    def __init__(self, path: Path):
        self.writers = [RunWriter(path, rank=rank, world=2) for rank in range(2)]
        # Every rank holds the whole tensors, as under DDP: a rank that has come further does not change a number.
        for writer in self.writers:
            for k in range(3):
                writer.tensor(f"t{k}", "weight", f"m{k}", (1000,), "float32", replicated=True)
        self.steps = 0

    def step(self) -> None:
        for writer in self.writers:
            writer.append(self.steps, range(3), rows_of(self.steps, 3))
            writer.flush()
        self.steps += 1


@pytest.mark.parametrize("sorting", [1000, 3], ids=["growing", "sorted meanwhile"])
def test_every_copy_is_readable_and_a_last_one_is_complete(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sorting: int
) -> None:
    monkeypatch.setattr(outlet, "SEGMENT_FLUSHES", sorting)
    training, cut = Training(path), random.Random(0)
    training.step()
    over = tmp_path / "again and again"
    for number in range(8):
        begun = training.steps
        fresh = tmp_path / f"copy {number}"
        copy(path, fresh, training.step, cut)
        copy(path, over, training.step)
        for copied in (fresh, over):
            assert wrong_numbers(open_run(copied)) == 0
            assert set(steps_in(copied)) <= set(range(training.steps))
        if sorting == 1000:  # files that only grow: what was there before the copy began has arrived
            assert set(range(begun)) <= set(steps_in(over))
            assert open_run(over).damage.blocks == 0
    for writer in training.writers:
        writer.close()
    copy(path, over, lambda: None)
    assert steps_in(over) == list(range(training.steps))
    assert wrong_numbers(open_run(over)) == 0 and open_run(over).damage.blocks == 0


def test_a_rank_whose_manifest_has_not_arrived_is_one_that_has_not_begun(path: Path, tmp_path: Path) -> None:
    training = Training(path)
    training.step()
    shutil.copytree(path, tmp_path / "copy")
    (tmp_path / "copy" / "rank-00001" / "manifest.json").write_bytes(b"")
    held = open_run(tmp_path / "copy")
    assert (held.ranks, held.world) == ((0,), 2)
    shutil.copy(path / "rank-00001" / "manifest.json", tmp_path / "copy" / "rank-00001")
    assert open_run(tmp_path / "copy").ranks == (0, 1)
