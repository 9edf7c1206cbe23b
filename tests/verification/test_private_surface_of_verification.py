"""What verification needs of PyTorch beyond its documented surface is still there."""

from __future__ import annotations

import sys
from typing import Any

import torch

from backsight.verification import _torch


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad_output: torch.Tensor) -> torch.Tensor:
        return grad_output * 2


def test_calls_of_apply_are_told_with_their_class_and_then_forward_is_called_by_the_same_frame() -> None:
    seen: list[Any] = []
    callers = []

    def notice(frame: Any, event: str, given: Any) -> None:
        if event == "call" and frame.f_code is Twice.forward.__code__:
            callers.append(frame.f_back)
            seen.append(len(frame.f_locals["ctx"].needs_input_grad))
        elif event.startswith("c_") and (function := _torch.applied(given)) is not None:
            callers.append(frame)
            seen.append((event, function))

    sys.setprofile(notice)
    try:
        Twice.apply(torch.ones(2))
    finally:
        sys.setprofile(None)
    assert seen == [("c_call", Twice), 1, ("c_return", Twice)] and len(set(map(id, callers))) == 1
    assert _torch.applied(torch.nn.Linear(1, 1).apply) is None and _torch.applied(len) is None


def test_hooks_of_modules_are_placed_by_an_internal_function() -> None:
    model = torch.nn.Linear(2, 2)
    model.register_full_backward_hook(lambda *_: None)
    output = model(torch.ones(1, 2, requires_grad=True))
    assert type(output.grad_fn).__name__.removesuffix("Backward") in _torch.INTERNAL


def test_operators_have_names_and_those_of_users_a_forward_and_a_backward() -> None:
    @torch.library.custom_op("backsight_test::surface", mutates_args=())
    def surface(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad

    surface.register_autograd(backward)
    operator = torch.ops.backsight_test.surface
    assert _torch.operator_name(operator) == _torch.operator_name(operator.default) == "backsight_test::surface"
    assert _torch.operator_name(torch.ops.aten.sin.default) == "sin"
    assert _torch.operator_name(torch.sin) is None
    forward, found = _torch.library_backward(operator.default)
    assert (forward.__name__, found) == ("surface", backward)
    output = operator(torch.ones(2, requires_grad=True))
    assert type(output.grad_fn).__name__.startswith(_torch.GENERATED)


def test_transforms_are_noticed() -> None:
    seen = []
    torch.vmap(lambda x: seen.append(_torch.transforming()) or x)(torch.ones(2))
    assert (seen, _torch.transforming()) == ([True], False)


def test_the_default_generator_is_seeded_as_by_manual_seed() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    _torch.seed(5)
    assert torch.equal(torch.rand(3), expected)
