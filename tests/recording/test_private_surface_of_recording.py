"""The private attributes of PyTorch that recording touches are there and mean what we think."""

from __future__ import annotations

import sys
import threading

import pytest
import torch
from torch import nn

from backsight.recording import _torch
from backsight.recording.statistics import native
from backsight.recording.statistics._torch import function_mode
from backsight.recording.statistics.source import NATIVE
from backsight.tape import backward_number, version


def test_the_number_of_a_backward_pass_and_its_end():
    x = torch.ones(1, requires_grad=True)
    seen = []

    def hook(grad):
        seen.append(backward_number())
        _torch.when_backward_ends(lambda: seen.append("end"))

    y = x * 2
    y.register_hook(hook)
    assert backward_number() == -1
    y.backward()
    assert seen[0] >= 0
    assert seen[1:] == ["end"]
    assert backward_number() == -1


def test_a_transform_is_known_from_inside():
    inside = []
    torch.func.vmap(lambda x: inside.append(_torch.in_transform()) or x)(torch.ones(2))
    assert inside == [True]
    assert not _torch.in_transform()


@pytest.mark.skipif(not torch.distributed.is_available(), reason="needs torch.distributed")
def test_the_store_of_a_process_group_keeps_the_first_proposal():
    assert _torch.agreed("before any group") is None
    for first in ("a", "b"):  # another group meets in another store
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        try:
            assert [_torch.agreed(first), _torch.agreed("later")] == [first, first]
        finally:
            torch.distributed.destroy_process_group()


def test_an_in_place_operation_raises_the_version_and_inference_tensors_have_none():
    x = torch.ones(1)
    before = version(x)
    x.add_(1)
    assert version(x) == before + 1
    with torch.inference_mode():
        assert version(torch.ones(1)) is None


def test_modules_keep_what_they_hold_and_their_hooks_in_these_tables():
    model = nn.BatchNorm1d(2)
    model.inner = nn.ReLU()
    assert set(_torch.registered(model, "_parameters")) == {"weight", "bias"}
    assert "running_mean" in _torch.registered(model, "_buffers")
    assert _torch.registered(model, "_modules") == {"inner": model.inner}


def test_arguments_by_keyword_are_found_in_the_frame_that_calls_a_global_hook():
    seen = []

    def hook(module, args):
        seen.append((args, _torch.keywords(sys._getframe(1))))

    class Scaled(nn.Module):
        def forward(self, x, scale=1):
            return x * scale

    model, x = Scaled(), torch.ones(1)
    with nn.modules.module.register_module_forward_pre_hook(hook):
        model(x, scale=2)
        model.register_forward_pre_hook(lambda *given: ((x,), {"scale": 3}), with_kwargs=True)
        assert model(x).item() == 3
    assert [(len(args), kwargs) for args, kwargs in seen] == [(1, {"scale": 2}), (1, {})]


def test_it_is_known_whether_pytorch_walks_through_tables_of_hooks():
    seen = []
    parameter = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    optimizer.register_step_pre_hook(lambda *given: seen.append((_torch.busy("modules"), _torch.busy("optimizers"))))

    def closure():
        seen.append((_torch.busy("modules"), _torch.busy("optimizers")))
        return parameter.sum()

    optimizer.step(closure)  # within the step itself no table is walked through
    assert seen == [(False, True), (False, False)]
    assert not _torch.busy("modules") and not _torch.busy("optimizers")
    entered, ended = threading.Event(), threading.Event()

    class Waiting(nn.Module):
        def forward(self, x):
            entered.set()
            ended.wait(60)

    thread = threading.Thread(target=Waiting(), args=(torch.ones(1),))
    thread.start()
    entered.wait(60)
    assert _torch.busy("modules") and not _torch.busy("optimizers")
    ended.set()
    thread.join()
    assert not _torch.busy("modules")


def test_it_is_known_whether_fx_or_torchscript_is_tracing():
    seen = []

    class Asks(nn.Module):
        def forward(self, x):
            seen.append(_torch.traced())
            return x + 1

    model = Asks()
    model(torch.ones(1))
    torch.fx.symbolic_trace(model)
    torch.jit.trace(model, torch.ones(1), check_trace=False)
    assert seen == [False, True, True] and not _torch.traced()


def test_a_hook_that_is_put_into_the_table_of_a_parameter_is_called_with_its_gradient():
    parameter, seen = nn.Parameter(torch.ones(1)), []
    keys = _torch.new_hook_key(), _torch.new_hook_key()
    assert len({*keys, parameter.register_post_accumulate_grad_hook(lambda held: seen.append("first")).id}) == 3
    table = _torch.gradient_hooks(parameter)
    table[keys[0]] = lambda held: seen.append(held.grad.item())
    (parameter * 2).sum().backward()
    assert seen == ["first", 2.0]
    del table[keys[0]]
    (parameter * 2).sum().backward()
    assert seen == ["first", 2.0, "first"]


@pytest.mark.skipif(native.kernel is None, reason="the kernel is not built here")
def test_from_2_10_on_pytorch_has_the_exchange_functions_of_dlpack():
    there = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 10)
    assert (native.EXCHANGE is not None) == there
    arguments = (native.PLAIN, NATIVE, torch.get_num_threads, function_mode)
    assert native.kernel.connect(*arguments, native.EXCHANGE) == there


def test_it_is_known_whether_a_mode_of_the_user_is_at_work():
    assert not function_mode()
    with torch.overrides.TorchFunctionMode():
        assert function_mode()


def test_a_compiled_module_holds_the_module_under_this_name():
    model = nn.Linear(1, 1)
    assert _torch.registered(torch.compile(model, backend="eager"), "_modules") == {_torch.COMPILED: model}


def test_a_trace_is_counted_once_and_is_no_part_of_the_graph():
    def traced(x):
        if torch.compiler.is_compiling():
            _torch.note_trace()
        return x + 1

    torch._dynamo.reset()
    before = _torch.hooks_traced()
    compiled = torch.compile(traced, backend="eager", fullgraph=True)
    assert [compiled(torch.ones(1)).item() for _ in range(3)] == [2.0] * 3
    assert _torch.hooks_traced() == before + 1
    torch._dynamo.reset()


def test_a_lazy_parameter_is_known():
    assert _torch.is_uninitialized(nn.LazyLinear(1).weight)
    assert not _torch.is_uninitialized(nn.Linear(1, 1).weight)


def test_the_active_ddp_module_is_where_we_look():
    assert not _torch.in_ddp()
    ddp = nn.parallel.DistributedDataParallel
    assert ddp._active_ddp_module is None


def test_a_table_of_gradient_hooks_goes_when_it_is_empty_and_may_come_again():
    parameter, seen = nn.Parameter(torch.ones(1)), []
    handle = parameter.register_post_accumulate_grad_hook(seen.append)
    _torch.drop_empty_hooks(parameter)
    parameter.sum().backward()
    assert len(seen) == 1
    handle.remove()
    assert parameter._post_accumulate_grad_hooks is not None
    _torch.drop_empty_hooks(parameter)
    assert parameter._post_accumulate_grad_hooks is None
    parameter.register_post_accumulate_grad_hook(seen.append)
    parameter.sum().backward()
    assert len(seen) == 2


def test_what_torchscript_makes_keeps_its_tables_here():
    scripted = torch.jit.script(torch.nn.Sequential(torch.nn.Linear(2, 2)))
    traced = torch.jit.trace(torch.nn.Sequential(torch.nn.Linear(2, 2)), torch.ones(1, 2))
    for module in (scripted, traced):
        assert list(_torch.registered(module, "_modules")) == ["0"]
    assert set(_torch.registered(scripted[0], "_parameters")) == {"weight", "bias"}
