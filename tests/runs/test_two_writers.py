"""Several who write into one run: one gets it, the others are told, and what is read is what one of them wrote."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
from written import rows_of, write, wrong_numbers

from backsight.runs import RunError, RunExists, RunWriter, open_run

CODE = """
    import sys, time
    from pathlib import Path
    from written import rows_of
    from backsight.runs import RunError, RunWriter
    path, go, rank = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    print("ready", flush=True)
    while not go.exists():
        pass
    try:
        writer = RunWriter(path, rank=rank, world=2, job=sys.argv[4] or None)
    except RunError as error:
        print(type(error).__name__, flush=True)
        sys.exit()
    ids = [writer.tensor(f"t{k}", "weight", f"m{k}", (1000,), "float32") for k in range(3)]
    for step in range(4):
        writer.append(step, ids, rows_of(step, 3))
        writer.flush()
    writer.close()
    print("wrote", flush=True)
"""


def started(path: Path, go: Path, rank: int, job: str) -> subprocess.Popen[str]:
    head = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
    line = [sys.executable, "-c", head + textwrap.dedent(CODE), str(path), str(go), str(rank), job]
    return subprocess.Popen(line, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("jobs", [("a", "a"), ("a", "b"), ("", "")], ids=["one job", "two jobs", "no job"])
@pytest.mark.parametrize("ranks", [(0, 0), (0, 1)], ids=["one rank", "two ranks"])
def test_of_two_processes_that_begin_at_once(tmp_path: Path, jobs: tuple[str, str], ranks: tuple[int, int]) -> None:
    for attempt in range(3):
        path, go = tmp_path / f"run{attempt}", tmp_path / f"go{attempt}"
        both = [started(path, go, rank, job) for rank, job in zip(ranks, jobs, strict=True)]
        assert [each.stdout.readline() for each in both if each.stdout] == ["ready\n"] * 2
        go.touch()
        said = sorted(each.communicate(timeout=60)[0].strip() for each in both)
        assert said == (["wrote", "wrote"] if jobs[0] == jobs[1] and ranks == (0, 1) else ["RunExists", "wrote"])
        run = open_run(path)
        assert run.steps.tolist() == [0, 1, 2, 3]
        assert run.ranks == (ranks if said == ["wrote", "wrote"] else run.ranks[:1])
        assert len(run.ranks) == 2 or wrong_numbers(run) == 0
        assert not [left.name for left in path.iterdir() if left.name.startswith("starting")]


def test_of_many_threads_that_begin_at_once_one_gets_the_run(tmp_path: Path) -> None:
    for attempt in range(10):
        gate, told, held = threading.Barrier(8), [], []

        def begin(path: Path = tmp_path / f"run{attempt}", gate=gate, told=told, held=held) -> None:
            gate.wait()
            try:
                held.append(RunWriter(path))
            except RunError as error:
                told.append(type(error))

        threads = [threading.Thread(target=begin) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(held), told) == (1, [RunExists] * 7)
        number = held[0].tensor("t0", "weight", "m0", (1000,), "float32")
        held[0].append(0, [number], rows_of(0, 1))
        held[0].close()
        assert open_run(tmp_path / f"run{attempt}").steps.tolist() == [0]


def test_a_file_that_another_has_put_there_is_never_written_over(path: Path) -> None:
    writer = RunWriter(path)
    (path / "rank-00000" / "000000.live").write_bytes(b"another's")
    number = writer.tensor("t0", "weight")
    writer.append(0, [number], rows_of(0, 1))
    with pytest.raises(RunError, match="File exists"):
        writer.flush()
    writer.close()
    assert (path / "rank-00000" / "000000.live").read_bytes() == b"another's"


def test_a_run_that_is_written_is_not_written_into(path: Path) -> None:
    writer = write(path, 2, close=False)
    for rank, world in ((0, 1), (1, 2), (0, 2)):
        with pytest.raises(RunExists):
            RunWriter(path, rank=rank, world=world)
    writer.append(2, [0, 1, 2], rows_of(2, 3))
    writer.close()
    assert open_run(path).steps.tolist() == [0, 1, 2]
    assert sorted(os.listdir(path)) == [".job", "rank-00000"]
