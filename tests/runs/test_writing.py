"""The writer: any name, any order, any disk, any end."""

from __future__ import annotations

import _thread
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
from sharded import examples
from written import rows_of, write, wrong_numbers

from backsight.runs import BINS, STATISTICS, NotARun, RunExists, RunNotWritable, RunWriter, open_run, outlet

NAMES = [
    "a/b",
    "../../etc/passwd",
    "two\nlines",
    "<script>alert(1)</script>",
    "\U0001f525",
    "",
    "x" * 5000,
    "\ud800",
    "\0",
]


def program(code: str, *args: object, **options: object) -> subprocess.Popen[bytes]:
    head = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
    argv = [sys.executable, "-c", head + textwrap.dedent(code), *map(str, args)]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def test_names_are_data(path: Path, tmp_path: Path) -> None:
    with RunWriter(path, config={name: name for name in NAMES}) as writer:
        ids = [writer.tensor(name, name, name) for name in NAMES]
        writer.append(0, ids, rows_of(0, len(NAMES)))
        writer.mark(0, **{name: name for name in NAMES})
    run = open_run(path)
    assert [tensor.name for tensor in run.tensors] == NAMES
    assert run.frame(as_="numpy")["tensor"].tolist() == NAMES
    assert run.config == run.marks[0].tags == {name: name for name in NAMES}
    assert [found.name for found in tmp_path.iterdir()] == ["run"]
    for ending in (".csv", ".jsonl", ".parquet"):
        run.export(tmp_path / f"out{ending}")
    run.to_tensorboard(tmp_path / "board")


def test_a_tensor_is_known_again_and_told_apart_by_kind_and_shape(path: Path) -> None:
    with RunWriter(path) as writer:
        first = writer.tensor("x", "input", "fc", (2, 3), "float32")
        assert writer.tensor("x", "input", "fc", (2, 3), "float32") == first
        assert writer.tensor("x", "grad", "fc", (2, 3), "float32") != first
        writer.append(0, [first], rows_of(0, 1))
        writer.append(1, [writer.tensor("x", "input", "fc", (5, 3), "float32")], rows_of(1, 1))
    run = open_run(path)
    assert [(tensor.name, tensor.kind) for tensor in run.tensors] == [("x", "input"), ("x", "grad")]
    assert run.frame(tensor="x", as_="numpy")["shape"].tolist() == [(2, 3), (5, 3)]
    assert run.series("x", "mean", kind="input").values.tolist() == [0, 1]


def test_a_tensor_of_ever_new_shapes_does_not_fill_the_disk(path: Path) -> None:
    with RunWriter(path) as writer:
        ids = {writer.tensor("x", "input", "fc", (size,), "float32") for size in range(1000)}
    assert len(ids) == 65
    assert open_run(path).tensors[0].shape == (0,)


def test_of_two_rows_with_one_key_the_later_holds(path: Path) -> None:
    with RunWriter(path) as writer:
        writer.tensor("t0", "weight")
        for step in (5, 3, 5):
            rows = rows_of(step, 1)
            rows["count"] = 1000 + writer._pending.size  # the third is written after the two
            writer.append(step, [0], rows)
        assert open_run(path).frame(as_="numpy")["count"].tolist() == []
        writer.flush()
        live = open_run(path).frame(as_="numpy")
    held = open_run(path).frame(as_="numpy")
    for found in (live, held):
        assert found["step"].tolist() == [3, 5]
        assert found["count"].tolist() == [1001, 1002]


def test_several_steps_at_once_are_the_same_as_one_after_the_other(tmp_path: Path) -> None:
    steps, tensors, calls = [3, 4, 4, 4, 7, 7], [0, 0, 1, 0, 1, 0], [0, 0, 0, 1, 0, 0]
    rows, counts = rows_of(0, len(steps)), np.arange(len(steps) * BINS).reshape(-1, BINS)
    for name in ("together", "apart"):
        with RunWriter(tmp_path / name) as writer:
            ids = [writer.tensor(each, "weight") for each in "ab"]
            writer.append(3, ids[1:], rows[:1])
            if name == "together":
                writer.append(steps, tensors, rows, call=calls, histograms=counts)
            else:
                for at, step in enumerate(steps):
                    each = slice(at, at + 1)
                    writer.append(step, tensors[each], rows[each], call=calls[each], histograms=counts[each])
            writer.append(7, ids[:1], rows[:1], call=5)
    together, apart = (open_run(tmp_path / name) for name in ("together", "apart"))
    one, other = together.frame(as_="numpy"), apart.frame(as_="numpy")
    assert one["step"].tolist() == [3, 3, 4, 4, 4, 7, 7, 7]
    for column in one:
        if column != "time":
            np.testing.assert_array_equal(one[column], other[column])


@pytest.mark.parametrize("step", [-1, 1 << 62, [0, -1]])
def test_impossible_steps_are_refused(path: Path, step: object) -> None:
    with RunWriter(path) as writer:
        writer.tensor("a", "weight")
        with pytest.raises(ValueError, match="a step must be a number from 0 up"):
            writer.append(step, [0, 0], rows_of(0, 2))


def test_the_order_of_a_step_goes_on_over_a_flush(path: Path) -> None:
    with RunWriter(path) as writer:
        ids = [writer.tensor(f"t{k}", "output") for k in range(3)]
        for k in (2, 0, 1):
            writer.append(0, [ids[k]], rows_of(0, 1))
            writer.flush()
    assert open_run(path).frame(as_="numpy")["tensor"].tolist() == ["t2", "t0", "t1"]


def test_full_segments_are_sorted_and_merged_and_read_the_same(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlet, "SEGMENT_FLUSHES", 3)
    write(path, 200)
    files = [found.name for found in (path / "rank-00000").iterdir()]
    assert "000000-000015.sorted" in files
    assert not [name for name in files if name.endswith((".live", ".unfinished"))]
    run = open_run(path)
    assert len(run.frame(as_="numpy")["step"]) == 600
    assert wrong_numbers(run) == 0
    assert run.steps.tolist() == list(range(200))


def test_calls_order_histograms_and_metrics_come_back(path: Path) -> None:
    counts = np.arange(3 * BINS, dtype="u4").reshape(3, BINS)
    with RunWriter(path) as writer:
        ids = [writer.tensor("late", "output"), writer.tensor("early", "output")]
        gap, lag = writer.metric("gap"), writer.metric("lag")
        writer.append(4, [1, 0, 1], rows_of(4, 3), call=[0, 0, 1], histograms=counts, sampled=[64, 0, 32])
        writer.append(4, [0], rows_of(9, 1), call=7)
        writer.values(4, gap, ids, [0.5, np.nan])
        writer.values(4, lag, [0], [[1.0, 2.0]], call=7)
    held = open_run(path).frame(as_="numpy")
    assert held["tensor"].tolist() == ["early", "late", "early", "late"]
    assert held["call"].tolist() == [0, 0, 1, 7]
    np.testing.assert_array_equal(held["gap"], [np.nan, 0.5, np.nan, np.nan])
    np.testing.assert_array_equal(held["lag[1]"], [np.nan, np.nan, np.nan, 2.0])
    found = open_run(path).histograms("early")
    assert found.counts.tolist() == [(counts[0] + counts[2]).tolist()]
    assert found.sampled.tolist() == [96]
    assert len(open_run(path).histograms("late")) == 0


@pytest.mark.parametrize(
    ("bad", "text"),
    [
        (lambda writer: writer.append(0, [0], np.zeros(1)), "flat array of STATISTICS"),
        (lambda writer: writer.append(0, [0, 0], np.zeros(1, STATISTICS)), "one per row"),
        (lambda writer: writer.append(0, [5], np.zeros(1, STATISTICS)), "has not given"),
        (lambda writer: writer.append(-1, [0], np.zeros(1, STATISTICS)), "from 0 up"),
        (lambda writer: writer.append(0, [0], np.zeros(1, STATISTICS), histograms=[[1, 2]]), "histograms must be"),
        (lambda writer: writer.values(0, 3, [0], [1.0]), "not a number that"),
        (lambda writer: writer.metric("x", merge="average"), "merge must be one of"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_nothing(path: Path, bad: object, text: str) -> None:
    with RunWriter(path) as writer:
        writer.tensor("t0", "weight")
        with pytest.raises(ValueError, match=text):
            bad(writer)
    assert len(open_run(path).frame(as_="numpy")["step"]) == 0


def test_a_run_is_never_written_over(path: Path) -> None:
    write(path, 2)
    with pytest.raises(RunExists, match=r"There is already a run in .*.* Choose another name, or remove the folder"):
        RunWriter(path)
    assert wrong_numbers(open_run(path)) == 0


def test_ranks_of_another_launch_do_not_join(path: Path) -> None:
    write(path, 1, rank=0, world=2)
    with pytest.raises(RunExists):
        RunWriter(path, rank=3, world=4)
    write(path, 1, rank=1, world=2)


def test_a_folder_with_other_things_is_not_written_into(path: Path) -> None:
    path.mkdir()
    (path / "thesis.tex").write_text("x")
    with pytest.raises(NotARun, match=r"thesis\.tex.* Use a separate folder for the run"):
        RunWriter(path)
    assert [found.name for found in path.iterdir()] == ["thesis.tex"]


def test_a_path_that_cannot_be_a_folder_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for target in (tmp_path / "file", tmp_path / "file" / "run", Path("/proc/nothing/here")):
        with pytest.raises(RunNotWritable, match="cannot be written to"):
            RunWriter(target)


def test_a_folder_without_permission_says_so(tmp_path: Path) -> None:
    code = """
        import os, sys
        from backsight.runs import RunNotWritable, RunWriter
        if os.geteuid() == 0:
            os.seteuid(65534)  # root may write anywhere
        try:
            RunWriter(sys.argv[1])
        except RunNotWritable as error:
            print(error)
    """
    tmp_path.chmod(0o555)
    out, err = program(code, tmp_path / "run").communicate(timeout=60)
    assert b"cannot be written to" in out, err.decode()
    assert b"Permission denied. Choose a writable folder" in out


def test_a_full_disk_is_said_and_costs_nothing_that_was_flushed(path: Path) -> None:
    code = """
        import resource, sys
        from pathlib import Path
        from written import rows_of
        from backsight.runs import RunNotWritable, RunWriter
        writer = RunWriter(Path(sys.argv[1]))
        ids = [writer.tensor(f"t{k}", "weight", f"m{k}", (1000,), "float32") for k in range(3)]
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, resource.RLIM_INFINITY))
        flushed, refused = [], []
        for step in range(100):
            if step == 60:
                resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            writer.append(step, ids, rows_of(step, 3))
            try:
                writer.flush()
                flushed.append(step)
            except RunNotWritable as error:
                refused.append(str(error))
        writer.close()
        assert refused[0].count("File too large. What was written before is safe; free some space") == 1, refused[0]
        assert writer.lost_rows == 3 * len(refused)
        print(*flushed)
    """
    child = program(code, path)
    out, err = child.communicate(timeout=60)
    assert child.returncode == 0, err.decode()
    run = open_run(path)
    flushed = [int(step) for step in out.split()]
    assert run.steps.tolist() == flushed
    assert set(range(60, 100)) <= set(flushed) != set(range(100))
    assert wrong_numbers(run) == 0
    assert run.damage.blocks == run.damage.torn == 0


def test_a_folder_that_was_deleted_is_not_called_safe(path: Path) -> None:
    with RunWriter(path) as writer:
        shutil.rmtree(path)
        with pytest.raises(RunNotWritable, match="is gone: it was deleted"):
            writer.tensor("t", "weight")


def test_a_disk_too_full_to_sort_leaves_the_live_segments(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("backsight.runs.tidying.write_sorted", full)
    monkeypatch.setattr(outlet, "SEGMENT_FLUSHES", 2)
    write(path, 9)
    assert open_run(path).steps.tolist() == list(range(9))
    assert wrong_numbers(open_run(path)) == 0


def test_every_flushed_step_survives_a_kill_at_any_moment(tmp_path: Path) -> None:
    code = """
        import sys
        from pathlib import Path
        from written import rows_of
        from backsight.runs import RunWriter, outlet, tidying
        outlet.SEGMENT_FLUSHES, tidying.FAN = 5, 3  # so that sorting and merging are hit as well
        writer = RunWriter(Path(sys.argv[1]))
        ids = [writer.tensor(f"t{k}", "weight", f"m{k}", (1000,), "float32") for k in range(3)]
        step = 0
        while True:
            writer.append(step, ids, rows_of(step, 3))
            writer.flush()
            sys.stdout.write(f"{step}\\n")
            sys.stdout.flush()
            step += 1
    """
    random.seed(1)
    for first in range(0, examples(80), 5):
        children = [(tmp_path / f"run{k}", program(code, tmp_path / f"run{k}")) for k in range(first, first + 5)]
        for _, child in children:
            child.stdout.readline()  # it has begun
        for path, child in children:
            time.sleep(random.random() * 0.05)
            child.send_signal(signal.SIGKILL)
            out, err = child.communicate(timeout=60)
            assert child.returncode == -signal.SIGKILL, err.decode()
            flushed = [int(line) for line in out.splitlines(keepends=True) if line.endswith(b"\n")]
            run = open_run(path)
            steps = run.steps.tolist()
            assert steps == list(range(len(steps)))  # none is missing
            assert len(steps) > max(flushed, default=0)
            assert len(run.frame(as_="numpy")["step"]) == 3 * len(steps)
            assert wrong_numbers(run) == 0


def test_a_process_that_was_forked_off_does_not_write(path: Path) -> None:
    code = """
        import os, sys
        from pathlib import Path
        from written import rows_of
        from backsight.runs import RunNotWritable, RunWriter
        writer = RunWriter(Path(sys.argv[1]))
        writer.tensor("t0", "weight", "m0", (1000,), "float32")
        writer.append(0, [0], rows_of(0, 1))
        child = os.fork()
        if not child:
            try:
                writer.flush()
            except RunNotWritable as error:
                assert "a fork of it" in str(error)
                writer.close()
                os._exit(7)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        writer.close()
    """
    child = program(code, path)
    _, err = child.communicate(timeout=60)
    assert child.returncode == 0, err.decode()
    assert open_run(path).steps.tolist() == [0]


def test_a_closed_writer_says_so(path: Path) -> None:
    writer = write(path, 1)
    writer.close()
    with pytest.raises(RunNotWritable, match="was closed"):
        writer.mark(0, late=True)


def test_neither_recording_nor_reading_needs_pandas_or_arrow(path: Path) -> None:
    code = """
        import sys
        for name in ("pandas", "pyarrow", "polars", "torch"):
            sys.modules[name] = None
        from pathlib import Path
        from written import write
        from backsight.runs import open_run
        path = Path(sys.argv[1])
        write(path, 3)
        run = open_run(path)
        run.latest(as_="numpy"), run.series("t1", "mean")
        run.export(path.parent / "a.csv"), run.to_tensorboard(path.parent / "b")
        try:
            run.frame()
        except ImportError as error:
            assert str(error).endswith("pip install 'backsight[runs]'. Or use as_=\\"numpy\\".")
            print("said")
    """
    child = program(code, path)
    out, err = child.communicate(timeout=60)
    assert out == b"said\n", err.decode()


def test_at_the_end_of_a_program_a_run_is_sorted_without_a_thread(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = write(path, 3, close=False)
    monkeypatch.setattr(_thread, "start_new_thread", no_thread)
    writer.close()
    assert wrong_numbers(open_run(path)) == 0
    assert [entry.suffix for entry in (path / "rank-00000").iterdir() if entry.suffix in (".live", ".sorted")] == [
        ".sorted"
    ]


def test_without_a_thread_to_sort_in_writing_goes_on(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backsight.runs.outlet.SEGMENT_FLUSHES", 2)
    monkeypatch.setattr(_thread, "start_new_thread", no_thread)
    write(path, 9)
    assert open_run(path).steps.tolist() == list(range(9))


def no_thread(function: object, given: object) -> None:
    raise RuntimeError("can't create new thread at interpreter shutdown")


def test_what_is_interrupted_in_the_middle_is_taken_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = write(path, 2, close=False)
    whole = os.write

    def interrupted(file: int, data: memoryview) -> int:
        whole(file, data[:20])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            writer.event("lost")
    writer.event("kept")
    writer.close()
    run = open_run(path)
    assert [event.event for event in run.events] == ["kept"]
    assert run.damage.lines == 0


def test_segments_merge_tensor_by_tensor_and_the_later_row_holds(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backsight.runs.outlet.SEGMENT_FLUSHES", 1)
    writer = RunWriter(path)
    ids = [writer.tensor(f"t{k}", "weight") for k in range(5)]
    for step in range(20):  # of each step the odd ones twice, in different segments; not every tensor in each
        for again in range(1 + step % 2):
            rows = np.zeros(5, STATISTICS)
            rows["count"], rows["mean"] = 1, step + again / 2
            writer.append(step, ids[step % 3 :], rows[step % 3 :])
            writer.flush()
    writer.close()
    assert len(list((path / "rank-00000").glob("*.sorted"))) < 20
    held = open_run(path).frame(tensor="t4", stat="mean", as_="numpy")
    assert held["mean"].tolist() == [step + step % 2 / 2 for step in range(20)]


def test_a_number_of_any_precision_is_written_down(path: Path) -> None:
    with RunWriter(path, config={"lr": np.longdouble(0.5), "z": np.clongdouble(1j)}) as writer:
        writer.mark(0, loss=np.longdouble("inf"))
    run = open_run(path)
    assert (run.config["lr"], run.config["z"]) == (0.5, "<numpy.clongdouble>")
    assert run.marks[0].tags == {"loss": float("inf")}


def test_tensors_without_elements_have_rows_and_no_histograms(path: Path) -> None:
    with RunWriter(path) as writer:
        ids = [writer.tensor(name, "output") for name in "ab"]
        writer.append(0, ids, rows_of(0, 2), histograms=np.zeros((2, BINS), "u4"), sampled=[0, 0])
    assert len(open_run(path).frame(as_="numpy")["step"]) == 2
    assert len(open_run(path).histograms("a")) == 0
