"""Finding runs, and what is said where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from written import write

from backsight.runs import NewerRun, NotARun, RunError, RunNotFound, RunWarning, RunWriter, lines, open_run, runs_in


def make_newer(path: Path) -> None:
    manifest = path / "rank-00000" / "manifest.json"
    held = lines.opened(manifest.read_bytes()[:-1])
    manifest.write_bytes(lines.sealed({**held, "version": 99}))


def test_nothing_there(tmp_path: Path) -> None:
    write(tmp_path / "first", 1)
    with pytest.raises(RunNotFound, match=r"there is no run at .*frist; did you mean '.*first'\?"):
        open_run(tmp_path / "frist")
    with pytest.raises(RunNotFound, match=r"there is no run at .*nope\. Runs there: first\."):
        open_run(tmp_path / "nope")


def test_a_foreign_folder(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    with pytest.raises(NotARun, match="is not a recording"):
        open_run(tmp_path / "photos")


def test_a_folder_of_runs(tmp_path: Path) -> None:
    write(tmp_path / "runs" / "first", 1)
    with pytest.raises(NotARun, match=r"but a folder of recordings: first\. Name one of them: .*first"):
        open_run(tmp_path / "runs")


def test_a_file(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    with pytest.raises(NotARun):
        open_run(tmp_path / "x")


def test_a_foreign_folder_that_looks_like_one(tmp_path: Path) -> None:
    (tmp_path / "rank-00000").mkdir()
    with pytest.raises(NotARun, match=r"has no manifest\.json"):
        open_run(tmp_path)
    (tmp_path / "rank-00000" / "manifest.json").write_bytes(lines.sealed({"format": "another", "version": 1}))
    with pytest.raises(NotARun, match="does not say that this is a run of backsight"):
        open_run(tmp_path)


def test_a_later_format(path: Path) -> None:
    write(path, 1)
    make_newer(path)
    with pytest.raises(NewerRun, match=r"format 99, but this backsight reads up to 1\. Upgrade it"):
        open_run(path)


def test_all_errors_are_run_errors() -> None:
    assert issubclass(RunNotFound, RunError)
    assert issubclass(NewerRun, RunError)


def test_the_runs_in_a_folder_oldest_first(tmp_path: Path) -> None:
    for name in ("second/b", "a", "c"):
        write(tmp_path / name, 1)
    (tmp_path / "other").mkdir()
    (tmp_path / "loop").symlink_to(tmp_path)
    make_newer(tmp_path / "c")
    with pytest.warns(RunWarning, match="format 99"):
        found = runs_in(tmp_path)
    assert [run.path for run in found] == [tmp_path / "second" / "b", tmp_path / "a"]
    assert [run.name for run in runs_in(tmp_path / "a")] == ["a"]
    with pytest.raises(RunNotFound):
        runs_in(tmp_path / "nowhere")


def test_a_run_that_is_removed_while_it_is_open(path: Path) -> None:
    import shutil

    write(path, 2)
    run = open_run(path)
    shutil.rmtree(path)
    with pytest.raises(RunError):
        run.frame(as_="numpy")


def test_a_run_whose_manifest_cannot_be_read_does_not_hide_the_others(tmp_path: Path) -> None:
    for name in ("good", "bad"):
        RunWriter(tmp_path / name).close()
    (tmp_path / "bad" / "rank-00000" / "manifest.json").unlink()
    (tmp_path / "bad" / "rank-00000" / "manifest.json").mkdir()
    with pytest.warns(RunWarning, match="manifest.json cannot be read: Is a directory"):
        assert [run.name for run in runs_in(tmp_path)] == ["good"]
