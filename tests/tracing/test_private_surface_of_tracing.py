"""Fails loudly when PyTorch changes what the tracing leans on; see `backsight/tracing/_torch.py`."""

import sys

import torch
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack

from backsight.tape._torch import forward_class
from backsight.tracing import _torch
from backsight.tracing.backwards import CODES


def test_the_number_of_the_next_node():
    before = _torch.next_number()
    y = torch.ones(1, requires_grad=True) * 2
    assert y.grad_fn._sequence_nr() == before and _torch.next_number() == before + 1


def test_a_forward_is_called_after_its_node_is_made_and_is_given_it():
    seen = []

    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append((forward_class(type(ctx)), ctx._sequence_nr()))
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return g

    before = _torch.next_number()
    y = Same.apply(torch.ones(1, requires_grad=True))
    assert seen == [(Same, before)] and y.grad_fn._sequence_nr() == before
    assert forward_class(type(None)) is forward_class(torch.Tensor) is None


def test_what_a_forward_returns_as_it_is_is_viewed_without_a_graph():
    seen = []

    class Same(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g

    class Calls(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append((func, args[0] is args[-1], torch.is_grad_enabled()))
            return func(*args, **(kwargs or {}))

    x = torch.ones(1, requires_grad=True)
    with Calls():
        Same.apply(x)
    assert seen == [(torch.Tensor.view_as, True, False)]


def test_each_new_function_runs_this_code():
    seen = []

    def notice(frame, event, given):
        if event == "call" and frame.f_code is _torch.NEW_FUNCTION:
            seen.append(frame.f_locals["cls"])

    sys.setprofile(notice)
    try:
        new = type("New", (torch.autograd.Function,), {})
    finally:
        sys.setprofile(None)
    assert seen == [new]


def test_a_mode_stays_on_within_what_it_was_asked_about():
    def called(function, args, kwargs):
        return function(*args, **kwargs)

    class Names(TorchFunctionMode):
        def __init__(self):
            super().__init__()
            self.names = []

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.names.append(func.__name__)
            if func in (torch.Tensor.backward, torch.autograd.backward):
                return _torch.run_with(self, func, types, args, kwargs or {}, called)
            return func(*args, **(kwargs or {}))

    y = torch.ones(1, requires_grad=True).exp()
    y.register_hook(lambda grad: grad.neg())
    with Names() as mode:
        y.backward(torch.ones(1), retain_graph=True)
    assert "neg" in mode.names[mode.names.index("backward") :], "what a hook calls in the backward"


def test_a_function_that_asks_is_run_without_asking():
    for function in (torch.Tensor.backward, torch.autograd.grad):
        alike = _torch._unasking(function)
        assert alike is not None and alike.__code__ is function.__code__, f"{function.__name__} asks in another way"
    assert _torch._unasking(torch.sum) is None


def test_a_mode_is_taken_away_from_among_others():
    modes = [TorchFunctionMode() for _ in range(3)]
    for mode in modes:
        _torch.put(mode)
    try:
        assert _get_current_function_mode_stack() == modes[::-1]
        assert _torch.remove(modes[1]) and not _torch.remove(modes[1])
        assert _get_current_function_mode_stack() == [modes[2], modes[0]]
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
