"""A traced training is what it is without, and a trace survives what ends the program."""

from __future__ import annotations

import os
import signal
import sys
import textwrap

import fresh
import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint
from trainings_traced import Net, Training

import backsight as bs
from backsight.recording.statistics import native


class Counting(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += 1
        return func(*args, **(kwargs or {}))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.drop, self.out = nn.LSTM(8, 8, batch_first=True), nn.Dropout(0.3), nn.Linear(8, 3)

    def forward(self, x):
        return self.out(self.drop(self.rnn(x[:, None].expand(-1, 4, -1))[0][:, -1]))


class Convolved(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv1d(1, 4, 3, padding=1), nn.BatchNorm1d(4)
        self.out = nn.Linear(32, 3)

    def forward(self, x):
        return self.out(torch.relu_(self.norm(self.conv(x[:, None]))).flatten(1))


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.out = nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 3)

    def forward(self, x):
        return self.out(checkpoint(lambda y: self.b(torch.tanh(self.a(y))), x, use_reentrant=False))


def bits(model, trace=None, **options):
    torch.manual_seed(5)
    training = Training(seed=5, model=model() if model is not None else None)
    if trace is None:
        return training.run(4).bits()
    with bs.trace(trace, steps=(0, 2), **options):
        return training.run(4).bits()


@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("model", [None, Recurrent, Convolved, Checkpointed])
def test_every_bit_is_as_without(tmp_path, model, values):
    expected = bits(model)
    assert all(map(torch.equal, bits(model, tmp_path / "t", values=values), expected))
    assert bs.open_trace(tmp_path / "t").notes == ()


@pytest.mark.filterwarnings("ignore:backsight was installed without its C kernel")
@pytest.mark.parametrize("kernel", [True, False])
def test_memory_can_be_resized_as_before(tmp_path, monkeypatch, kernel):
    if not kernel:
        monkeypatch.setattr(native, "kernel", None)
        native.available.cache_clear()
    with bs.trace(tmp_path / "t", values=True):
        small, large = torch.ones(3) + 1, (torch.ones(50, 60) + 1).to(torch.float16)
        turned = large.t() + 1
        given = small.to(torch.complex64) * 2
    native.available.cache_clear()
    assert all(each.untyped_storage().resizable() for each in (small, large, turned, given))
    assert len(bs.open_trace(tmp_path / "t").operations) > 5


def test_nothing_is_on_the_stack_in_steps_that_are_not_traced(tmp_path):
    training, depths = Training(), []
    with bs.trace(tmp_path / "t", steps=(1,)):
        for _ in range(3):
            depths.append(torch._C._len_torch_dispatch_stack())
            training.run(1)
    assert depths == [0, 1, 0]
    assert torch._C._len_torch_dispatch_stack() == 0


def test_modes_of_the_program_may_begin_and_end_anywhere(tmp_path):
    before, within, across = Counting(), Counting(), Counting()
    training = Training()
    with before:
        trace = bs.trace(tmp_path / "t", steps=(0,))
        with within:
            (torch.ones(2) + 1).sum()
        across.__enter__()
        training.run(1)
        across.__exit__(None, None, None)
        assert torch._C._len_torch_dispatch_stack() == 1
    trace.close()
    assert before.count > across.count > within.count == 3
    assert torch._C._len_torch_dispatch_stack() == 0
    assert [each.op for each in bs.open_trace(trace.path).operations][:2] == ["aten.ones.default", "aten.add.Tensor"]


def test_a_mode_that_ends_before_the_traced_step_does_not_take_ours_away(tmp_path):
    mode = Counting()
    with mode:
        trace = bs.trace(tmp_path / "t", steps=(0,))
    torch.ones(3) + 1
    assert torch._C._len_torch_dispatch_stack() == 1
    trace.close()
    assert torch._C._len_torch_dispatch_stack() == 0
    assert bs.open_trace(trace.path).operations[-1].op == "aten.add.Tensor"


def test_an_error_of_the_program_passes_and_what_was_done_is_there(tmp_path):
    with pytest.raises(ZeroDivisionError), bs.trace(tmp_path / "t") as trace:
        torch.ones(3) + 1
        raise ZeroDivisionError
    held = bs.open_trace(trace.path)
    assert [each.short for each in held.operations] == ["ones", "add"]
    assert held.notes == ("step 0 did not end",)


def test_a_failure_of_ours_ends_the_trace_and_not_the_training(tmp_path, monkeypatch):
    from backsight.traces import ledger

    def fails(tensor):
        raise ValueError("of ours")

    expected = bits(None)
    monkeypatch.setattr(ledger, "fingerprint", fails)
    with pytest.warns(bs.TraceWarning, match="stopped tracing in step 0; the training continues: ValueError: of ours"):
        assert all(map(torch.equal, bits(None, tmp_path / "t"), expected))
    assert torch._C._len_torch_dispatch_stack() == 0
    assert "the trace ends here" in bs.open_trace(tmp_path / "t").notes[0]


def run(text):
    return fresh.run([sys.executable, "-c", textwrap.dedent(text)], timeout=120)


def test_a_kill_in_the_middle_leaves_what_was_written(tmp_path):
    done = run(
        f"""
        import os, signal, torch, backsight as bs
        model = torch.nn.Linear(4, 4)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with bs.trace({str(tmp_path / "t")!r}, steps=(0, 1)):
            for step in range(2):
                model(torch.ones(2, 4)).sum().backward()
                if step:
                    for _ in range(600):
                        torch.ones(3) + 1
                    os.kill(os.getpid(), signal.SIGKILL)
                optimizer.step()
        """
    )
    assert done.returncode == -signal.SIGKILL
    held = bs.open_trace(tmp_path / "t")
    assert held.whole == (0,) and held.steps == (0, 1)
    assert len([each for each in held.operations if each.step == 1]) >= 512
    assert held.notes[-1] == "step 1 did not end"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_process_that_is_forked_off_writes_nothing(tmp_path):
    done = run(
        f"""
        import os, torch, backsight as bs
        with bs.trace({str(tmp_path / "t")!r}) as trace:
            torch.ones(3) + 1
            if not (child := os.fork()):
                torch.ones(3) * 2
                trace.close()
                os._exit(0)
            os.waitpid(child, 0)
            torch.ones(3) - 1
            trace.step()
        print([each.short for each in bs.open_trace(trace.path).operations])
        """
    )
    assert done.stdout == "['ones', 'add', 'ones', 'sub']\n", done.stderr


def test_a_compiled_model_is_compared_with_the_one_that_it_was_made_of(tmp_path):
    torch._dynamo.reset()
    for name in ("eager", "compiled"):
        torch.manual_seed(0)
        net = Net()
        training = Training(model=torch.compile(net, backend="aot_eager") if name == "compiled" else net)
        with bs.trace(tmp_path / name, model=net):
            training.run(1)
    assert bs.diff(tmp_path / "eager", tmp_path / "compiled").cls in ("same", "noise")


def test_compiled_functions_stay_compiled_and_are_compiled_once(tmp_path):
    compiled = []

    def backend(graph, inputs):
        compiled.append(graph)
        return graph.forward

    torch._dynamo.reset()
    model = torch.compile(nn.Linear(8, 3), backend=backend)
    training = Training(model=model)
    with bs.trace(tmp_path / "t", steps=(1,)) as trace:
        training.run(3)
    assert len(compiled) == 1
    assert bs.open_trace(trace.path).whole == (1,)
