"""The private attributes of PyTorch that measuring touches are there and mean what we think."""

from __future__ import annotations

import time
from contextlib import nullcontext

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from backsight.memory import _torch
from backsight.memory.allocator import profiler_of_memory


def test_the_node_that_runs_is_known():
    x = torch.ones(1, requires_grad=True)
    y = x * 2
    seen = []
    y.grad_fn.register_prehook(lambda _: seen.append(_torch.current_node().name()))
    y.backward()
    assert seen == ["MulBackward0"]


def test_the_profilers_tree_has_allocations_nodes_and_gradients():
    w = torch.ones(4, 4, requires_grad=True)
    optimizer = torch.optim.SGD([w], lr=0.1)
    with profiler_of_memory() as profiler:
        began = time.time_ns()
        (w @ torch.ones(4, 4)).sum().backward()
        gradient = w.grad.untyped_storage().data_ptr()
        optimizer.step()
        optimizer.zero_grad()
        ended = time.time_ns()
    events, stack = [], list(_torch.event_tree(profiler))
    while stack:
        event = stack.pop()
        events.append(event)
        stack += event.children
    taken = [event for event in events if event.tag == _torch.EventType.Allocation]
    assert gradient in {event.extra_fields.ptr for event in taken if event.extra_fields.alloc_size == 64}
    assert {str(event.extra_fields.device) for event in taken} == {"cpu"}
    assert all(began <= event.start_time_ns <= ended for event in taken)  # one clock with time.time_ns
    operators = [event for event in events if event.tag == _torch.EventType.TorchOp]
    names = {event.name for event in operators}
    assert f"{_torch.EVALUATE}MmBackward0" in names
    assert any(name.startswith(_torch.STEP) for name in names)
    assert any(name.startswith(_torch.ZERO_GRAD) for name in names)
    forward = next(e.extra_fields.sequence_number for e in operators if e.name == "aten::mm")
    assert forward in {e.extra_fields.sequence_number for e in operators if e.name.startswith(_torch.EVALUATE)}
    accumulated = [e for e in operators if e.extra_fields.scope == _torch.BACKWARD and "AccumulateGrad" in e.name]
    assert [given.storage_data_ptr for e in accumulated for given in e.extra_fields.inputs] == [gradient]


def test_a_fake_mode_is_known():
    assert _torch.fake_mode() is None
    with FakeTensorMode() as mode:
        assert _torch.fake_mode() is mode


def test_a_compiled_module_holds_the_module_under_the_name_that_we_know():
    module = torch.nn.Linear(1, 1)
    assert getattr(torch.compile(module), _torch.COMPILED) is module


def test_what_the_allocator_logs_of_older_blocks_can_be_kept_from_stderr(capfd):
    level = _torch.log_level()
    before = level.value
    for quiet in (False, True):
        blocks = [torch.ones(1) for _ in range(1001)]  # it tells of each thousandth that is freed
        with _torch.without_log_warnings() if quiet else nullcontext(), profiler_of_memory():
            blocks.clear()
        assert ("Memory block of unknown size" in capfd.readouterr().err) is not quiet
    assert level.value == before
