"""What may be wrong, and what then happens: the training goes on, with one clear warning."""

from __future__ import annotations

import os
import shutil
import subprocess
import threading

import pytest
import torch
from torch import nn
from trainings import Net, names, rows, train

import backsight as bs
from backsight.recording import sink as sink_module
from backsight.recording.page import Page
from backsight.runs import RunNotWritable, RunWriter
from backsight.tables.listing import listed

NAMES = ["a/b", "..", "new\nline", "<b>bold</b>", "☃ 🔥", "", " ", "con", "a" * 300]


def only(found):
    """Return the text of the only warning."""
    (warning,) = found
    return str(warning.message)


@pytest.mark.parametrize("model", [None, "model", [nn.Linear(1, 1)], {}, {"a": 3}, {3: nn.Linear(1, 1)}])
def test_what_is_no_model_is_refused(run, model):
    with pytest.raises(TypeError, match=r"model.* must be a torch\.nn\.Module"):
        bs.record(model, run=run)
    assert not run.exists()


@pytest.mark.parametrize("optimizer", ["sgd", [], [None], {"a": 3}])
def test_what_is_no_optimizer_is_refused(net, run, optimizer):
    with pytest.raises(TypeError, match=r"optimizer must be a torch\.optim\.Optimizer"):
        bs.record(net, optimizer, run)


def test_a_tap_that_there_is_not_is_refused(net, run):
    with pytest.raises(ValueError, match="no tap 'gradient'; choose from input, output, weight, grad, state"):
        bs.record(net, run=run, taps=("gradient",))


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        (
            {"calls": 0},
            "calls must be a whole number of at least 1, not 0: omit it for 256; "
            'taps=("weight", "grad", "state") records no calls.',
        ),
        ({"calls": 2.5}, "calls must be a whole number of at least 1, not 2.5: "),
        ({"queue": -1}, "queue must be a whole number of at least 1, not -1: omit it for 512 steps."),
        ({"queue": None}, "queue must be a whole number of at least 1, not None: "),
        ({"run": ""}, "run must be the path of a folder, not '': name a folder such as 'runs/first', or omit it"),
        ({"run": 3}, "run must be the path of a folder, not 3: "),
        ({"every": None}, 'every must be a whole number, "auto" or a function of the step, not None: omit it'),
        ({"every": 0}, "every must be a whole number of at least 1, not 0: omit it to record every step"),
        ({"first": -1}, "first must be a whole number of at least 0, not -1: "),
        ({"first": True}, "first must be a whole number of at least 0, not True: "),
        ({"taps": None}, "taps must be names of taps, not None: omit it for input, output, weight, grad, state."),
        ({"config": ""}, "config must be a dict, not '': write config={'lr': 0.1}."),
    ],
    ids=lambda value: "" if isinstance(value, str) else str(value),
)
def test_an_argument_that_can_only_be_a_mistake_is_refused(net, tmp_path, monkeypatch, argument, said):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((TypeError, ValueError)) as refused:
        bs.record(net, **argument)
    assert str(refused.value).startswith(said)
    assert not list(tmp_path.iterdir())


def test_a_tensor_as_a_variable_is_refused(net, run):
    with pytest.raises(TypeError, match="kept alive and go stale"):
        bs.record(net, run=run, variables={"delta": torch.ones(1)})


def test_a_model_without_parameters(run):
    model = nn.Sequential(nn.ReLU())
    with bs.record(model, run=run) as rec:
        model(torch.ones(2))
        rec.step()
    assert set(names(run)) == {"input", "0.input", "0.output", "output"}


def test_a_lazy_module_is_recorded_from_its_first_gradient_on(run):
    model = nn.Sequential(nn.LazyLinear(3), nn.LazyBatchNorm1d(), nn.LazyLinear(1))
    with bs.record(model, run=run) as rec:
        optimizer = None
        for _ in range(2):
            model(torch.ones(4, 2)).sum().backward()
            optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
            optimizer.step()
        assert rec.steps == 2
    assert [row["step"] for row in rows(run, tensor="0.weight", kind="grad")] == [0, 1]
    assert [row["step"] for row in rows(run, tensor="0.weight", kind="weight")] == [1]
    assert bs.open_run(run).tree[0]["children"][0]["parameters"][0]["shape"] == [3, 2]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_data(run, name):
    key = name.replace(".", "․")  # PyTorch itself refuses dots
    model = nn.Module()
    model.inner = nn.ModuleDict({key or "empty": nn.Linear(1, 1)})
    model.forward = lambda x: model.inner[key or "empty"](x)
    with bs.record(model, run=run, config={name: name}) as rec:
        rec.mark(**{name: name})
        model(torch.ones(1)).sum().backward()
        rec.step()
    held = bs.open_run(run)
    assert f"inner.{key or 'empty'}.weight" in names(run, kind="grad")
    assert held.marks[0].tags == {name: name}
    assert {path.name for path in run.parent.iterdir()} == {"run"}


def test_a_run_that_exists_is_not_written_over(net, run):
    bs.record(net, run=run).close()
    with pytest.warns(bs.RecordingWarning, match="There is already a run in") as found:
        rec = bs.record(net, run=run)
    assert rec.run == run.with_name("run-2")
    assert str(rec.run) in only(found)
    assert only(found).endswith(f" open_run({str(run)!r}) still opens the earlier run.")
    rec.close()


def test_a_folder_of_something_else_is_not_written_into(net, run):
    run.mkdir()
    (run / "precious.txt").write_text("mine")
    with pytest.warns(bs.RecordingWarning, match=r"recording into .*run-2 instead") as found:
        bs.record(net, run=run).close()
    assert "still opens" not in only(found)
    assert [path.name for path in run.iterdir()] == ["precious.txt"]


def test_where_nothing_can_be_written_the_training_goes_on(net, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with pytest.warns(bs.RecordingWarning, match="not recording; training continues") as found:
        rec = bs.record(net, optimizer, file / "run")
        train(net, optimizer, 2)
        rec.mark(epoch=1)
        rec.step()
        rec.rearm()
        rec.flush()
        rec.close()
    assert "file" in only(found)
    assert rec.closed


def test_a_disk_that_is_full_ends_the_recording_and_not_the_training(run, in_a_process):
    said = in_a_process(
        f"""
        import resource, signal, time, torch, backsight as bs
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        model = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(20)))
        optimizer = torch.optim.Adam(model.parameters())
        rec = bs.record(model, optimizer, {str(run)!r})
        for step in range(100):
            optimizer.zero_grad()
            model(torch.randn(2, 8)).sum().backward()
            optimizer.step()
            rec.flush()
        rec.close()
        print("trained", step + 1)
        """
    )
    assert said.stdout == "trained 100\n"
    assert said.stderr.count("RecordingWarning: backsight: recording stopped; training continues") == 1
    recorded = bs.open_run(run).steps
    assert 0 < len(recorded) < 100
    assert recorded.tolist() == list(range(len(recorded)))


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 256 kB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    options = ["-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]
    if mount is None or subprocess.run([mount, *options], capture_output=True).returncode:
        pytest.skip("mounting a small file system is not permitted here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.parametrize("taken", [0, 200, 255])
def test_a_disk_that_fills_up_ends_the_recording_and_what_was_flushed_is_read(small_disk, net, taken):
    (small_disk / "other").write_bytes(bytes(taken * 1024))
    optimizer = torch.optim.Adam(net.parameters())
    with pytest.warns(bs.RecordingWarning) as found, bs.record(net, optimizer, small_disk / "run") as rec:
        for epoch in range(200):
            rec.mark(epoch=epoch)
            train(net, optimizer, 10)
            rec.flush()
    assert "No space left on device" in only(found)
    if (small_disk / "run").exists() and (small_disk / "run" / "rank-00000").exists():
        recorded = bs.open_run(small_disk / "run")
        assert recorded.steps.tolist() == list(range(len(recorded.steps)))
        assert len(recorded.steps) < 2000 and recorded.damage == bs.runs.Damage()
        assert not list((small_disk / "run").rglob("*.unfinished"))


def test_when_writing_does_not_keep_up_the_oldest_steps_are_dropped_and_counted(net, run, monkeypatch):
    gate, append = threading.Event(), RunWriter.append
    monkeypatch.setattr(RunWriter, "append", lambda *args, **kwargs: gate.wait(60) and append(*args, **kwargs))
    monkeypatch.setattr(sink_module, "PAUSE", 0.001)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    rec = bs.record(net, optimizer, run, queue=4)
    with pytest.warns(bs.RecordingWarning, match="does not keep up") as found:
        train(net, optimizer, 30)
    gate.set()
    rec.close()
    recorded = bs.open_run(run).steps.tolist()
    assert rec.dropped > 0
    assert len(recorded) + rec.dropped == 30
    assert recorded[-4:] == [26, 27, 28, 29]
    assert "rec.dropped" in only(found)
    assert [event.details["steps"] for event in bs.open_run(run).events if event.event == "dropped"] == [rec.dropped]


def test_a_tap_that_fails_is_taken_off_and_the_others_stay(net, run, monkeypatch):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    real = Page.note

    def note(self, slot, call, tensor):
        if slot.kind == "input":
            raise MemoryError("no room")
        real(self, slot, call, tensor)

    monkeypatch.setattr(Page, "note", note)
    rec = bs.record(net, optimizer, run)
    with pytest.warns(bs.RecordingWarning, match="input, output is no longer recorded: MemoryError: no room") as found:
        train(net, optimizer, 3)
    rec.close()
    assert len(found) == 1
    assert {row["kind"] for row in rows(run)} == {"weight", "grad"}
    assert [event.event for event in bs.open_run(run).events if event.event == "tap failed"] == ["tap failed"]


def test_a_variable_that_fails_is_left_out(net, run):
    rec = bs.record(net, run=run, variables={"gone": lambda: 1 / 0, "there": lambda: torch.ones(1)})
    with pytest.warns(bs.RecordingWarning, match="variable 'gone' is no longer recorded: ZeroDivisionError"):
        for _ in range(2):
            net(torch.ones(1, 6))
            rec.step()
    rec.close()
    assert len(rows(run, tensor="there")) == 2


def test_warnings_that_are_errors_do_not_end_the_training(net, run, in_a_process):
    said = in_a_process(
        f"""
        import warnings, torch, backsight as bs
        warnings.simplefilter("error")
        model = torch.nn.Linear(1, 1)
        rec = bs.record(model, run={str(run)!r})
        rec.metric("weight")(lambda weight: "text")
        model(torch.ones(1, 1))
        rec.step()
        rec.close()
        """
    )
    assert "backsight: the metric '<lambda>' for 'weight' failed at weight" in said.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_that_was_forked_off_records_nothing(net, run):
    rec = bs.record(net, run=run)
    net(torch.ones(1, 6))
    child = os.fork()
    if child == 0:
        code = 1
        try:
            net(torch.full((1, 6), torch.inf)).sum().backward()
            rec.mark(who="the child")
            rec.step()
            rec.close()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    rec.step()
    rec.close()
    held = bs.open_run(run)
    assert held.first_nonfinite() is None
    assert held.marks == ()
    assert held.damage.blocks == 0


class Observed(torch.utils.data.Dataset):
    """A dataset that runs the observed model in the workers that load it."""

    def __init__(self, model):
        self.model = model

    def __len__(self):
        return 4

    def __getitem__(self, index):
        with torch.no_grad():
            return self.model(torch.full((6,), torch.inf)) * 0 + index


@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.slow
def test_workers_of_a_data_loader_record_nothing(run, start):
    if start not in torch.multiprocessing.get_all_start_methods():
        pytest.skip(f"no {start} here")
    model = Net()
    with bs.record(model, run=run) as rec:
        loader = torch.utils.data.DataLoader(Observed(model), num_workers=1, multiprocessing_context=start)
        assert len(list(loader)) == 4
        model(torch.ones(1, 6))
        rec.step()
    assert bs.open_run(run).first_nonfinite() is None
    assert "eval_output" not in {row["kind"] for row in rows(run)}


def test_several_processes_have_to_be_told_a_run(net, monkeypatch):
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="get the same run"):
        bs.record(net)


def test_a_run_without_a_name_gets_one(net, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with bs.record(net) as rec:
        assert rec.run.parent.name == "runs"
        assert rec.run.name.endswith("-Net")
    assert bs.open_run(rec.run).environment["torch"] == torch.__version__


def test_a_full_queue_keeps_marks_and_drops_pages(net, run):
    with bs.record(net, run=run) as rec:
        rec.mark(epoch=0)
        rec.step()
        rec.mark(epoch=1)
    assert [(mark.step, mark.tags) for mark in bs.open_run(run).marks] == [(0, {"epoch": 0}), (1, {"epoch": 1})]


def test_flushing_a_run_that_cannot_be_written_says_so_once(net, run, monkeypatch):
    def full(self, **_):
        raise RunNotWritable("the disk is full")

    rec = bs.record(net, run=run)
    monkeypatch.setattr(RunWriter, "flush", full)
    with pytest.warns(bs.RecordingWarning, match="the disk is full") as found:
        for _ in range(3):
            net(torch.ones(1, 6))
            rec.step()
            rec.flush()
    monkeypatch.undo()
    rec.close()
    assert len(found) == 1


@pytest.mark.parametrize("here", [".", "inner/.."])
def test_a_folder_without_a_name_that_is_taken_has_a_run_beside_it(net, tmp_path, monkeypatch, here):
    folder = tmp_path / "taken"
    (folder / "inner").mkdir(parents=True)
    monkeypatch.chdir(folder)
    with pytest.warns(bs.RecordingWarning, match="recording into .*taken-2 instead"), bs.record(net, run=here) as rec:
        pass
    assert rec.run == tmp_path / "taken-2"


def test_a_path_that_no_file_can_have_records_nothing(net, tmp_path):
    with pytest.warns(bs.RecordingWarning, match="not recording; training continues: .*embedded null"):
        rec = bs.record(net, run=tmp_path / "a\0b")
    assert rec.closed


@pytest.mark.parametrize("moved", [False, True])
def test_a_folder_that_goes_in_the_midst_of_the_training_is_said_and_what_was_moved_is_kept(net, run, moved):
    elsewhere = run.with_name("elsewhere")
    rec = bs.record(net, run=run)
    for _ in range(3):
        net(torch.ones(1, 6)).sum().backward()
        rec.step()
    rec.flush()
    run.rename(elsewhere) if moved else shutil.rmtree(run)
    with pytest.warns(bs.RecordingWarning, match="is gone: it was deleted .* or it was moved") as found:
        for _ in range(3):
            net(torch.ones(1, 6)).sum().backward()
            rec.step()
        rec.flush()
        rec.close()
    assert len(found) == 1 and not run.exists()
    if moved:
        held = bs.open_run(elsewhere)
        assert held.steps.tolist() == [0, 1, 2] and held.events[-2].event == "broke off"
        assert listed(held).state == "broke off"
        assert " tensors, after which the recording stopped" in str(held.audit())


def test_a_program_that_goes_elsewhere_takes_no_folder_away(net, tmp_path, monkeypatch, recwarn):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inner").mkdir()
    with bs.record(net, run="here") as rec:
        monkeypatch.chdir("inner")
        net(torch.ones(1, 6)).sum().backward()
        rec.step()
    assert bs.open_run(tmp_path / "here").steps.tolist() == [0] and not recwarn.list


def test_a_recording_whose_last_segment_could_not_be_sorted_is_not_taken_for_one_that_was_killed(net, run, monkeypatch):
    def full(folder, below):
        raise OSError("no files")

    monkeypatch.setattr("backsight.runs.outlet.tidy", full)
    with bs.record(net, run=run) as rec:
        net(torch.ones(1, 6)).sum().backward()
        rec.step()
    held = bs.open_run(run)
    assert [event.event for event in held.events][-1] == "ended"
    assert listed(held, now=held.created + 1e6).state == "finished"


def test_two_modules_of_one_name_are_refused(tmp_path):
    outer, other = nn.ModuleDict({"b": nn.Linear(1, 1)}), nn.Linear(1, 1)
    with pytest.raises(ValueError, match=r"two modules would be recorded as 'a\.b'"):
        bs.record({"a": outer, "a.b": other}, run=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    bs.record({"a": outer, "a.b": outer["b"]}, run=tmp_path / "run").close()  # the same one twice


def test_a_recorder_that_was_closed_is_not_used_again_in_silence(tmp_path):
    model = nn.Linear(2, 1)
    with bs.record(model, run=tmp_path / "run") as rec:
        pass
    with pytest.raises(RuntimeError, match=r"is closed and .* is complete"):
        rec.arm()
    with pytest.raises(RuntimeError, match="is closed"), rec:
        pass
