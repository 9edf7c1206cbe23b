"""Fails loudly when PyTorch changes what the tracing leans on; see `backsight/tracing/_torch.py`."""

import sys

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

from backsight.tracing import _torch
from backsight.tracing.backwards import CODES


def test_the_number_of_the_next_node():
    before = _torch.next_number()
    y = torch.ones(1, requires_grad=True) * 2
    assert y.grad_fn._sequence_nr() == before and _torch.next_number() == before + 1


def test_a_custom_function_is_applied_by_this_code():
    seen = []

    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            frame = sys._getframe()
            while frame is not None:
                seen.append(frame.f_code)
                frame = frame.f_back
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return g

    before = _torch.next_number()
    y = Same.apply(torch.ones(1, requires_grad=True))
    assert _torch.APPLY in seen and "cls" in _torch.APPLY.co_varnames
    assert y.grad_fn._sequence_nr() == before, "the node is made before the forward is called"


def test_a_mode_stays_on_within_what_it_was_asked_about():
    class Names(TorchFunctionMode):
        def __init__(self):
            super().__init__()
            self.names = []

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.names.append(func.__name__)
            if func in (torch.Tensor.backward, torch.autograd.backward):
                return _torch.run_with(self, func, types, args, kwargs or {})
            return func(*args, **(kwargs or {}))

    y = torch.ones(1, requires_grad=True).exp()
    y.register_hook(lambda grad: grad.neg())
    with Names() as mode:
        y.backward(torch.ones(1), retain_graph=True)
    assert "neg" in mode.names[mode.names.index("backward") :], "what a hook calls in the backward"


def test_without_a_hop_to_skip_a_function_that_asks_is_run_without_asking(monkeypatch):
    monkeypatch.setattr(_torch, "_skip_one_hop", None)
    test_a_mode_stays_on_within_what_it_was_asked_about()
    for function in (torch.Tensor.backward, torch.autograd.grad):
        alike = _torch._unasking(function)
        assert alike is not None and alike.__code__ is function.__code__, f"{function.__name__} asks in another way"
    assert _torch._unasking(torch.sum) is None


def test_a_mode_is_taken_away_from_among_others():
    modes = [TorchFunctionMode() for _ in range(3)]
    for mode in modes:
        _torch.push(mode)
    try:
        assert _torch.remove(modes[1]) and not _torch.remove(modes[1])
        assert _get_current_function_mode_stack() == [modes[0], modes[2]]
    finally:
        for mode in modes:
            _torch.remove(mode)


def test_the_code_around_compiled_functions_is_found():
    seen = []

    def inside(x):
        torch._dynamo.graph_break()
        frame = sys._getframe()
        while frame is not None:
            seen.append(frame.f_code)
            frame = frame.f_back
        return x

    torch.compile(inside, backend="eager")(torch.ones(1))
    assert _torch.compiled_wrapper() in seen


def test_backwards_are_run_by_these_functions():
    names = {code.co_name: code.co_varnames for code in CODES}
    assert set(names) == {"backward", "grad"}
    assert all({"retain_graph", "create_graph"} <= set(each) for each in names.values())


def test_modules_with_a_fast_path_ask_for_modes():
    import inspect

    for kind in _torch._FAST:
        assert "has_torch_function" in inspect.getsource(kind.forward)
