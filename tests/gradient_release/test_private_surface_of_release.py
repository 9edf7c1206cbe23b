"""The private attributes of PyTorch that gradient release touches are there and mean what we think."""

from __future__ import annotations

import torch
from torch import nn, optim

from backsight.gradient_release import _torch
from backsight.gradient_release.partial_step import is_of_torch, step_of_class


def test_hooks_of_a_parameter_are_called_in_the_order_of_their_table():
    parameter, calls = nn.Parameter(torch.ones(1)), []
    hooks = [lambda _, number=number: calls.append(number) for number in range(2)]
    for hook in hooks:
        parameter.register_post_accumulate_grad_hook(hook)
    (parameter * 2).backward()
    assert calls == [0, 1]
    assert [_torch.is_last_hook(parameter, hook) for hook in hooks] == [False, True]


def test_an_empty_table_of_hooks_can_be_taken_away():
    parameter = nn.Parameter(torch.ones(1))
    parameter.register_post_accumulate_grad_hook(lambda _: None).remove()
    assert parameter._post_accumulate_grad_hooks is not None
    _torch.drop_empty_hooks(parameter)
    assert parameter._post_accumulate_grad_hooks is None
    (parameter * 2).backward()
    assert parameter.grad == 2


def test_the_step_of_a_class_is_found_without_the_hooks_around_it():
    parameter, calls = nn.Parameter(torch.ones(1)), []
    optimizer = optim.SGD([parameter], lr=0.5)
    optimizer.register_step_pre_hook(lambda *_: calls.append(None))
    parameter.grad = torch.ones(1)
    step_of_class(optim.SGD)(optimizer)
    assert parameter == 0.5
    assert not calls
    assert len(_torch.step_hooks(optimizer)) == 1
    assert _torch.own_hook_tables(optimizer)


def test_a_scheduler_marks_the_step_that_it_counts_with():
    optimizer = optim.SGD([nn.Parameter(torch.ones(1))], lr=0.5)
    optim.lr_scheduler.StepLR(optimizer, 1)
    assert _torch.counts_for_a_scheduler(vars(optimizer)["step"])


def test_optimizers_of_torch_are_told_from_their_subclasses():
    parameter = nn.Parameter(torch.ones(1))
    assert is_of_torch(optim.AdamW([parameter]))
    assert not is_of_torch(type("AdamW", (optim.AdamW,), {})([parameter]))


def test_a_tensor_without_memory_can_be_a_gradient():
    class Empty(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            raise NotImplementedError

    parameter = nn.Parameter(torch.ones(3, 4, dtype=torch.bfloat16))
    made = _torch.wrapper(Empty, parameter)
    parameter.grad = made
    assert parameter.grad is made
    assert (made.shape, made.dtype) == (parameter.shape, parameter.dtype)


def test_the_backward_of_a_compiled_function_is_found_with_its_leaves():
    torch._dynamo.reset()
    model = nn.Linear(3, 3)
    loss = torch.compile(lambda x: model(x).sum(), backend="aot_eager")(torch.ones(1, 3))
    found = [
        node for node in _torch.compiled_backwards() if any(leaf is model.weight for leaf in _torch.leaves_of(node))
    ]
    assert len(found) == 1
    loss.backward()


def test_hooks_of_an_optimizer_can_be_put_last_before_and_first_after_a_step():
    parameter, calls = nn.Parameter(torch.ones(1)), []
    optimizer = optim.SGD([parameter], lr=0.5)
    before = optimizer.register_step_pre_hook(lambda *_: calls.append("ours, before"))
    optimizer.register_step_pre_hook(lambda *_: calls.append("before"))
    optimizer.register_step_post_hook(lambda *_: calls.append("after"))
    after = optimizer.register_step_post_hook(lambda *_: calls.append("ours, after"))
    _torch.hook_last_before_step(optimizer, before)
    _torch.hook_first_after_step(optimizer, after)
    optimizer.step()
    assert calls == ["before", "ours, before", "ours, after", "after"]


def test_memory_that_two_tensors_share_is_told_from_that_of_one():
    parameter = nn.Parameter(torch.ones(3, 3))
    assert not _torch.shares_memory(parameter)
    for share in (torch.Tensor.detach, torch.Tensor.t, lambda each: each.data, lambda each: each.detach().numpy()):
        other = share(parameter)
        assert _torch.shares_memory(parameter)
        del other
        assert not _torch.shares_memory(parameter)


def test_a_parameter_can_be_of_another_class_for_a_while_and_subclasses_be_left_out():
    calls = []

    class Telling(nn.Parameter):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            calls.append(func.__name__)
            with _torch.no_subclass_function():
                return func(*args, **kwargs or {})

    parameter = nn.Parameter(torch.ones(3))
    parameter.__class__ = Telling
    assert type(parameter.detach()) is torch.Tensor
    assert parameter.data.sum() == 3
    parameter.__class__ = nn.Parameter
    parameter.sum()
    assert calls == ["detach", "__get__"]


def test_the_end_of_a_backward_pass_can_be_waited_for():
    parameter, calls = nn.Parameter(torch.ones(1)), []

    def hook(_):
        calls.append("hook")
        _torch.at_end_of_backward(lambda: calls.append("end"))

    (2 * (3 * parameter)).backward()
    parameter.register_post_accumulate_grad_hook(hook)
    (2 * parameter).backward()
    assert calls == ["hook", "end"]


def test_all_objects_are_looked_at_only_where_something_was_compiled(monkeypatch):
    class Node:
        pass

    looked = []
    monkeypatch.setattr(_torch, "_FUNCTION_NODE", Node)
    monkeypatch.setattr(_torch, "alive", lambda kind: looked.append(kind) or [made])
    assert [*_torch.compiled_backwards()] == looked == []
    made = type("CompiledFunctionBackward", (Node,), {})()
    assert [*_torch.compiled_backwards()] == [made]
