"""Assertions about gradients, for tests: `backsight.testing`. What they raise explains what is wrong.

import backsight as bs

def test_my_function():
    bs.testing.assert_gradients_right(MyFunction.apply, torch.randn(4, 3))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from backsight.verification import Verification, verify, verify_second_order

__all__ = ["assert_gradients_right"]


def assert_gradients_right(
    function: Callable[..., Any],
    /,
    *inputs: Any,
    second_order: bool = False,
    seconds: float = 60.0,
    seed: int = 0,
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
        seconds: the time that each of the two may take.
        seed: of the random numbers that the function draws.
        keywords: its keyword arguments.

    Raises:
        AssertionError: with the report of `backsight.verify`.
    """
    __tracebackhide__ = True
    _assert(verify(function, *inputs, seconds=seconds, seed=seed, progress=False, **keywords))
    if second_order:
        _assert(verify_second_order(function, *inputs, seconds=seconds, seed=seed, progress=False, **keywords))


def _assert(report: Verification) -> None:
    __tracebackhide__ = True
    if not report.ok:
        raise AssertionError(f"\n{report}")
