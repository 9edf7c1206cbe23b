"""`verify`: test the backward of every operation that a function runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch

from backsight.verification.check import checked
from backsight.verification.report import Verification
from backsight.verification.running import Options, tested
from backsight.verification.surrogates import functions


def verify(
    function: Callable[..., Any],
    /,
    *inputs: Any,
    seconds: float | None = None,
    seed: int | None = None,
    progress: bool | None = None,
    surrogates: Iterable[type[torch.autograd.Function]] | None = None,
    **keywords: Any,
) -> Verification:
    """Prove the backward of every operation that a function runs, or say which is wrong, and how.

    ```python
    print(backsight.verify(model, x))               # a module
    print(backsight.verify(MyFunction, x))    # a torch.autograd.Function
    backsight.verify(loss_fn, prediction, target, reduction="sum").raise_if("error")
    ```

    The function runs once, on copies of the inputs, and each operation in it again for the test: along random
    directions u and v, <u, J v> by differences of the forward in double precision must be <Jᵀ u, v> by the backward.
    Nothing of the user's is changed: `.grad`, buffers and random generators are as before.

    Args:
        function: a module, a function, or a `torch.autograd.Function`.
        inputs: its arguments. If no tensor among them requires a gradient, all floating-point ones are taken to.
        seconds: the time after which operations that were not tested yet are skipped, custom Functions being first;
            60 by default.
        seed: of the random numbers that the function draws, and of the directions; 0 by default.
        progress: whether to show a progress bar; by default in a terminal, where it takes longer than a second.
        surrogates: Functions whose gradients are meant to differ from the derivative, beside those that
            `backsight.surrogate` declares; their differences are notes.
        keywords: its keyword arguments.

    Raises:
        NothingToVerify: if no operation has a backward.
        TypeError: if `function` cannot be called, or has a parameter of the name of an option that is given; if a
            surrogate is no Function.
        Exception: what the function itself raises.
    """
    options = Options("verify", seconds, seed, progress, surrogates)
    return tested(partial(checked, surrogates=functions(surrogates), varied=set()), function, inputs, keywords, options)
