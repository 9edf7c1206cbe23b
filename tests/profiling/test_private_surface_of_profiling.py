"""PyTorch's private attributes that profiling reads, each with what we need of it. A failure names what has changed."""

import threading

import torch

from backsight.profiling import _torch
from backsight.tape import next_sequence_number


def events_of(work):
    profiler = _torch.new_profiler()
    profiler.start()
    work()
    profiler.stop()
    return _torch.trace_of(_torch.results(profiler)).events


def step():
    w = torch.ones(3, requires_grad=True)
    (w.sin() * 2).sum().backward()


def test_an_operation_begins_with_the_number_of_the_node_that_it_makes():
    number = next_sequence_number()
    forward = [(e.name, e.sequence) for e in events_of(step) if e.sequence >= 0 and not e.forward_thread]
    told = [("aten::sin", number), ("aten::mul", number + 1), ("aten::sum", number + 2)]
    assert forward == told, "forward events tell other numbers"


def test_the_engine_writes_the_nodes_number_and_the_thread_that_made_it():
    number = next_sequence_number()
    events = events_of(step)
    (sin,) = (event for event in events if event.name == f"{_torch.EVALUATED}SinBackward0")
    (call,) = (event for event in events if event.name == "SinBackward0")
    assert sin.sequence == number and sin.forward_thread == sin.thread > 0
    assert call.is_node_call and not sin.is_node_call and sin.start <= call.start <= call.end <= sin.end


def test_a_leafs_node_has_its_name_and_no_number():
    evaluated = (event for event in events_of(step) if event.name.startswith(_torch.EVALUATED))
    (leaf,) = (event for event in evaluated if _torch.node_name(event) == _torch.ACCUMULATE)
    assert leaf.sequence == -1


def test_every_thread_is_seen():
    def work():
        thread = threading.Thread(target=step)
        thread.start()
        thread.join()

    assert "aten::sin" in {event.name for event in events_of(work)}, "profile_all_threads is gone or does nothing"


def test_marks_are_events():
    def work():
        with _torch.mark("ours"):
            torch.ones(1).exp()

    events = {event.name: event for event in events_of(work)}
    assert events["ours"].start <= events["aten::exp"].start and events["aten::exp"].end <= events["ours"].end
    assert not events["ours"].is_annotation


def test_optimizers_annotate_themselves():
    def work():
        optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)])
        optimizer.step()
        optimizer.zero_grad()

    names = {event.name for event in events_of(work) if event.is_annotation}
    assert names == {f"{_torch.OPTIMIZER[0]}SGD.step", f"{_torch.OPTIMIZER[1]}SGD.zero_grad"}


def test_a_running_profiler_is_known_in_every_thread():
    said = []
    with torch.profiler.profile():
        thread = threading.Thread(target=lambda: said.append(_torch.is_profiling()))
        thread.start()
        thread.join()
    assert said == [True] and not _torch.is_profiling()


def test_a_profiler_that_only_cpp_knows_of_is_known():
    of = torch._C._profiler
    config = of.ProfilerConfig(of.ProfilerState.CPU, False, False, False, False, False, of._ExperimentalConfig())
    torch._C._autograd._enable_profiler_legacy(config)
    assert _torch.is_profiling()
    torch._C._autograd._disable_profiler_legacy()
    assert not _torch.is_profiling()


def test_a_hook_on_the_node_of_a_leaf_runs_when_its_gradient_arrives():
    w, arrived = torch.ones(3, requires_grad=True), []
    node = _torch.accumulator(w)
    handle = node.register_prehook(lambda gradients: arrived.append(len(gradients)))
    (w * 2).sum().backward()
    handle.remove()
    (w * 2).sum().backward()
    assert arrived == [1]


def test_tensors_that_have_no_gradient_have_no_such_node():
    assert _torch.accumulator(torch.ones(1)) is None
    with torch.inference_mode():
        assert _torch.accumulator(torch.ones(1)) is None
        assert _torch.accumulator(torch.nn.Parameter(torch.ones(1), requires_grad=False)) is None
