"""`trace`: the one call that writes a trace of a training, of steps that were checked."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch

from backsight.blame import warn_only
from backsight.recording.arguments import given
from backsight.surface import require
from backsight.traces.errors import TraceWarning
from backsight.traces.tracer import Tracer


def trace(
    path: str | os.PathLike[str],
    *,
    steps: int | Iterable[int] = (0,),
    model: torch.nn.Module | None = None,
    values: bool = False,
) -> Tracer:
    """Write every operation of some steps of a training, forward and backward, into a folder that `diff` compares.

    ```python
    with backsight.trace("traces/new", steps=(0, 1)):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()            # ends the step
    print(backsight.diff("traces/old", "traces/new"))
    ```

    Args:
        path: the folder to write to. Where there is a trace already, a number is added.
        steps: which steps, counted from 0 as the first. Those of optimizers end them; without any, call `.step()`.
        model: whose names modules and parameters get, if the first module that the program calls is not it.
        values: whether to keep every tensor whole, and not only those of up to 1,024 elements.

    For each operation: its name, module, line, arguments, and of each tensor that it takes and makes the shape, dtype,
    a hash of the bits, statistics and a small random projection. For each step: gradients, weights, buffers and the
    state of optimizers. In other steps nothing of it is there; numbers are the same to the last bit.

    Raises:
        TypeError, ValueError: if an argument is of another type than said above, or a step is negative.
        Unavailable: if this PyTorch lacks what it takes to see operations.
    """
    require("traces")
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
        raise TypeError(f"path must be the name of a folder, not {given(path)}: trace('traces/first', steps=0).")
    if model is not None and not issubclass(type(model), torch.nn.Module):
        raise TypeError(
            f"model must be a torch.nn.Module, not {given(model)}: leave it out to use the first model that is called."
        )
    tracer = Tracer(Path(path), checked(steps), values=values, say=_tell, model=model)
    tracer.start()
    return tracer


def _tell(text: str) -> None:
    warn_only(f"backsight: {text}", TraceWarning)


MOST_STEPS = 1000


def checked(steps: Any) -> tuple[int, ...]:
    """Return the steps that were asked for.

    Raises:
        TypeError: if they are no whole numbers.
        ValueError: if there are none, too many, or negative ones.
    """
    if isinstance(steps, int) and not isinstance(steps, bool):
        steps = (steps,)
    elif isinstance(steps, (str, bytes)) or not isinstance(steps, Iterable):
        raise TypeError(f"steps must be whole numbers, not {given(steps)}: steps=0, or steps=(0, 1, 100).")
    chosen = tuple(steps)
    wrong = [each for each in chosen if isinstance(each, bool) or not isinstance(each, int)]
    if wrong:
        raise TypeError(f"steps must be whole numbers, not {given(wrong[0])}: steps=0, or steps=(0, 1, 100).")
    if not chosen or min(chosen) < 0:
        raise ValueError(f"steps must name at least one step, counted from 0, not {given(steps)}: steps=(0, 1, 100).")
    if len(set(chosen)) > MOST_STEPS:
        raise ValueError(f"steps names {len(set(chosen)):,} steps, but a trace can hold at most {MOST_STEPS:,}.")
    return chosen
