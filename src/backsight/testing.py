"""Assertions about gradients, for tests: `backsight.testing`. What they raise explains what is wrong.

import backsight as bs

def test_my_function():
    bs.testing.assert_gradients_right(MyFunction.apply, torch.randn(4, 3))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from backsight.verification import Verification, verify, verify_second_order
from backsight.verification.manual import manual_backward

__all__ = ["assert_gradients_right", "assert_manual_backward"]


def assert_gradients_right(
    function: Callable[..., Any],
    /,
    *inputs: Any,
    second_order: bool = False,
    seconds: float | None = None,
    seed: int | None = None,
    **keywords: Any,
) -> None:
    """Assert that the backward of every operation that a function runs is right.

    ```python
    def test_my_function():
        bs.testing.assert_gradients_right(MyFunction.apply, torch.randn(4, 3))
        bs.testing.assert_gradients_right(model, x, second_order=True)
    ```

    What fails is explained: which operation, where its backward stands, and what is wrong with it. Warnings fail too,
    and so does a function of which nothing could be tested.

    Args:
        function: a module, a function, or a `torch.autograd.Function`.
        inputs: its arguments. If no tensor among them requires a gradient, all floating-point ones are taken to.
        second_order: whether the second derivatives have to be right too.
        seconds: the time that each of the two may take; 60 by default.
        seed: of the random numbers that the function draws; 0 by default.
        keywords: its keyword arguments.

    Raises:
        AssertionError: with the report of `backsight.verify`.
    """
    __tracebackhide__ = True
    _assert(verify(function, *inputs, seconds=seconds, seed=seed, **keywords))
    if second_order:
        _assert(verify_second_order(function, *inputs, seconds=seconds, seed=seed, **keywords))


def assert_manual_backward(
    layer: torch.nn.Module,
    x: Any,
    grad_out: Any,
    *,
    weight_grad: Any = None,
    bias_grad: Any = None,
    input_grad: Any = None,
    grads: Mapping[str, Any] | None = None,
    tolerance: float | None = None,
) -> None:
    """Assert that gradients which were derived by hand are those of autograd.

    ```python
    layer, x, grad_out = torch.nn.Linear(3, 2), torch.randn(8, 3), torch.randn(8, 2)
    bs.testing.assert_manual_backward(
        layer, x, grad_out,
        weight_grad=grad_out.T @ x, bias_grad=grad_out.sum(0), input_grad=grad_out @ layer.weight,
    )
    ```

    What fails says how it is wrong: transposed, not summed over the batch, a mean instead of a sum, the wrong sign,
    the derivative of an activation left out; or else which entries, and by what factor.

    Args:
        layer: any `torch.nn.Module` that returns one tensor: Linear, Conv2d, Embedding, LayerNorm, a Sequential.
        x: its input; a tuple for several.
        grad_out: the error signal, the gradient of the loss with respect to the output of the layer; its shape.
        weight_grad: what you computed for the weight: a tensor or an array. What is not given is not compared.
        bias_grad: for the bias.
        input_grad: for `x`; a tuple for several.
        grads: for other parameters, by their names in the layer: `{"0.weight": ...}`.
        tolerance: the difference that is allowed, relative to the largest entry; by default what rounding explains.

    Raises:
        AssertionError: with the differences.
        TypeError, ValueError: if nothing was given, or what was given does not fit the layer.
    """
    __tracebackhide__ = True
    given = {"weight_grad": weight_grad, "bias_grad": bias_grad}
    if isinstance(input_grad, tuple):
        given |= {f"input_grad[{k}]": each for k, each in enumerate(input_grad)}
    else:
        given["input_grad"] = input_grad
    given |= {f"{name}_grad": each for name, each in (grads or {}).items()}
    given = {name: each for name, each in given.items() if each is not None}
    if not given:
        raise TypeError("give what you computed: weight_grad=, bias_grad=, input_grad=, or grads={name: gradient}.")
    _assert(manual_backward(layer, x, grad_out, given, tolerance))


def _assert(report: Verification) -> None:
    __tracebackhide__ = True
    if not report.ok:
        raise AssertionError(f"\n{report}")
