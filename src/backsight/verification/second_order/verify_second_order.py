"""`verify_second_order`: differentiate the backward of every operation that runs, and say where that is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from backsight.verification.check import Outcome
from backsight.verification.errors import CannotTest, raised
from backsight.verification.operation import Operation
from backsight.verification.point import Clock, Point
from backsight.verification.report import Verification
from backsight.verification.running import Options, tested
from backsight.verification.second_order.pullback import pullback
from backsight.verification.second_order.telling import told
from backsight.verification.trial import tried


def verify_second_order(
    function: Callable[..., Any],
    /,
    *inputs: Any,
    seconds: float | None = None,
    seed: int | None = None,
    progress: bool | None = None,
    **keywords: Any,
) -> Verification:
    """Prove the second derivative of every operation that a function runs, or say which is wrong, and why.

    ```python
    print(backsight.verify_second_order(model, x))
    ```

    A gradient penalty, a Hessian, MAML and every other `create_graph=True` differentiate backwards. A custom Function
    whose backward uses what forward computed and kept on `ctx` has the right gradient and silently the wrong second
    derivative: to autograd what was kept is a constant. This finds it, and names what was kept and where.

    The backward of each operation is taken as a function (x, u) -> J(x)ᵀ u of its own, and its gradient by double
    backward held against differences in double precision. First derivatives are not judged: see `backsight.verify`.

    Args:
        function: a module, a function, or a `torch.autograd.Function`.
        inputs: its arguments. If no tensor among them requires a gradient, all floating-point ones are taken to.
        seconds: the time after which operations that were not tested yet are skipped, custom Functions being first;
            60 by default.
        seed: of the random numbers that the function draws, and of the directions; 0 by default.
        progress: whether to show a progress bar; by default in a terminal, where it takes longer than a second.
        keywords: its keyword arguments.

    Raises:
        NothingToVerify: if no operation has a backward.
        TypeError: if `function` cannot be called, or has a parameter of the name of an option that is given.
        Exception: what the function itself raises.
    """
    options = Options("verify_second_order", seconds, seed, progress)
    return tested(twice_checked, function, inputs, keywords, options, claim="second derivative")


def twice_checked(operation: Operation, clock: Clock, generator: torch.Generator) -> Outcome | None:
    """Test the derivative of the backward of one operation; None if it has nothing to differentiate.

    Raises:
        CannotTest: if it cannot be tested, or says itself that it cannot be differentiated twice.
    """
    first = Point.of(operation, clock)
    if not first.outputs or not any(each.numel() for each in first.inputs):
        return None
    if operation.custom is None and (reason := _untestable(first)):
        raise CannotTest(reason)
    second = Point.of(pullback(first, generator), clock)
    trial = tried(second, generator)
    if trial.pull is None:
        assert trial.error is not None
        raise CannotTest(f"its second derivative raises {raised(trial.error)}")
    findings = told(first, trial.wrong, generator)
    unclear = "; ".join(sorted(set(trial.unclear.values())))
    return Outcome(findings, bool(findings) or len(trial.unclear) < len(second.inputs), trial.how, unclear)


def _untestable(point: Point) -> str:
    """Return why the second derivative of one of PyTorch's own operations cannot be told by differences."""
    operation = point.operation
    if "hermitian" in str(operation.paths()):
        return "it assumes a symmetric matrix, and perturbed along a random direction it is not symmetric"
    return "it computes in a narrow dtype, where differences are too coarse" if point.eps > 1e-10 else ""
