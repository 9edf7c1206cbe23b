"""`forecast`: the peak memory of a training step before it is run, with nothing allocated."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import nn

from backsight.memory.advice import ordinary, saves, without_bucket
from backsight.memory.caching_allocator import replay
from backsight.memory.inside import Inside
from backsight.memory.inside import notes as inside_notes
from backsight.memory.ledger import History
from backsight.memory.plan import Forecast, Variant, requests
from backsight.memory.rehearsal import Sight, look, rehearse, settled
from backsight.memory.size import bytes_of
from backsight.memory.timeline import StepMemory
from backsight.memory.training import NotAStep, Recipe, Script
from backsight.memory.way import Way, others
from backsight.random_state import random_state_kept
from backsight.surface import require
from backsight.text import listed

BUCKET = "auto"
"""What `release` takes by default, a size for each optimizer."""

LONG = 10_000
"""Births and deaths in the steps of the way that was asked for, from which the others are done with a step less: that
saves seconds, the peaks are the same, and what is reserved differs by up to 2 %."""

_ONE_WAY = (
    "Alternatives are not compared, because the step creates its own optimizer: return (model, batch, optimizer) "
    "from the function instead."
)
_DENSE = (
    "Clipping with release keeps only factors of gradients, but the forecast keeps the gradients: the step needs "
    "this much or less."
)


def forecast(
    step_or_model: Any,
    batch: Any = None,
    optimizer: Any = None,
    *,
    loss: Callable[..., Any] | None = None,
    release: bool | str | int | None = None,
    checkpointing: bool | Sequence[str] | None = None,
    dtype: torch.dtype | str | None = None,
    autocast: torch.dtype | str | None = None,
    device: str | None = None,
    device_memory: str | int | None = None,
    allocator: bool | None = None,
    variants: bool = True,
    steps: int = 2,
) -> Forecast:
    """Return what a training step will need at its peak, by doing it with tensors that have sizes and no memory.

    ```python
    print(bs.forecast(model, batch, torch.optim.AdamW, device_memory="24GB"))
    print(bs.forecast(lambda: Llama(config), batch))       # built in the forecast: a model that would fit nowhere
    bs.forecast(model, (x, y), loss=torch.nn.functional.cross_entropy).fits("24GB")
    bs.forecast(step).at_peak                               # a function that does a step, as it stands
    ```

    Your model, optimizer, gradients and random state stay as they are: the step is done on copies. For the CPU, each
    operator is tried besides, on zeros and small, to see what it allocates inside; `notes` says where that cannot be.

    - `step_or_model`: a model, a function without arguments that builds one, or, without a `batch`, a function that
      does a training step or returns `(model, batch, optimizer)`.
    - `batch`: what the model is called with, a tensor, tuple or dict, or a function that makes it; real or not. With a
      `loss` it is (input, target); without, the model returns the loss: a scalar, in a tuple, or as `.loss`.
    - `optimizer`: an optimizer of the model, or a class or function called with its parameters; AdamW if None.
    - `release`: the bucket of gradient release, or True for its default. `checkpointing`: True for all repeated blocks,
      or the names of modules. The forecast is of that step then, and still compares with others if `variants` is true.
    - `dtype`: of weights and inputs. `autocast`: the type of mixed precision.
    - `device`: "cuda" or "cpu", which decides what an optimizer does by default; "cuda" if there is one or if
      `device_memory` is given. For CUDA, operators that save other tensors there are counted as on CUDA.
    - `allocator`: replay it through a model of CUDA's caching allocator; by default if the device is CUDA.
    - `steps`: how many are done in each way. Two, as the optimizer has its state from the second on.

    Loss and output live until the end of the step, and gradients are set to None after it.

    Raises CannotForecast where the step needs the values of tensors, NotAStep for what is no step, and ValueError for
    sizes, types and devices that are none.
    Source: torch._subclasses.fake_tensor.
    """
    require("measured memory")
    require("memory forecast")
    subject = _subject(step_or_model, batch, optimizer, loss, floating(dtype), floating(autocast))
    memory = None if device_memory is None else bytes_of(device_memory)
    place = _device(device, memory)
    if steps < 1:
        raise ValueError(f"steps must be at least 1, not {steps}.")
    replayed = place == "cuda" if allocator is None else allocator
    with random_state_kept():
        subject = settled(subject)
        sight = look(subject, place)
        asked = _asked(sight.way, release, checkpointing)
        ways = _ways(asked, sight) if variants else (asked,)
        with _progress(len(ways) + steps - 1) as done:
            inside = Inside(place)
            first = rehearse(subject, asked, place, steps, done, inside=inside)
            trained = first.trained if len(first.history.time) > LONG else None

            def rehearsed(way: Way) -> Variant:
                return _variant(way, rehearse(subject, way, place, steps, done, trained, inside).history, replayed)

            rest, notes = _compared(ways[1:], rehearsed)
            compared = [_variant(asked, first.history, replayed), *rest]
            if (at_once := without_bucket(compared)) is not None:
                compared += [each for each in _compared([at_once], rehearsed)[0] if saves(each, ordinary(compared))]
    notes += inside_notes(inside, first.history, first.doubts, place)
    notes += [_ONE_WAY] if variants and not sight.optimizers else []
    notes += [_DENSE] if sight.factored else []
    return Forecast(tuple(compared), place, memory, tuple(notes), sight.optimizers)


def _ways(asked: Way, sight: Sight) -> tuple[Way, ...]:
    """Return the way that was asked for, and those to compare it with."""
    if not sight.optimizers:
        return (asked,)
    return others(asked, sight.known, BUCKET if asked.release is None else asked.release, sight.blocks)


def _compared(ways: Sequence[Way], rehearsed: Callable[[Way], Variant]) -> tuple[list[Variant], list[str]]:
    """Go the ways that were not asked for, and return what they need; and why some could not be gone."""
    variants, notes = [], []
    for way in ways:
        try:
            variants.append(rehearsed(way))
        except Exception as error:
            notes.append(f"Not compared: {way}. {type(error).__name__}: {error}")
    return variants, notes


def _variant(way: Way, history: History, replayed: bool) -> Variant:
    reserved = replay(requests(history)).peak_reserved if replayed else None
    return Variant(way, StepMemory(history, forecast=True), reserved)


def _asked(way: Way, release: bool | str | int | None, checkpointing: bool | Sequence[str] | None) -> Way:
    """Return the way as the step stands, with what was asked for besides."""
    if release is False:
        way = replace(way, release=None)
    elif release is True:
        way = replace(way, release=BUCKET if way.release is None else way.release)
    elif release is not None:
        way = replace(way, release=release)
    if isinstance(checkpointing, str):
        checkpointing = [checkpointing]
    return replace(way, checkpointing=checkpointing if isinstance(checkpointing, bool) else tuple(checkpointing or ()))


def _subject(
    given: Any, batch: Any, optimizer: Any, loss: Any, dtype: torch.dtype | None, autocast: torch.dtype | None
) -> Recipe | Script:
    """Return what is to be imagined. Raises where the arguments do not belong together."""
    if isinstance(given, nn.Module):
        if batch is None:
            raise NotAStep(f"a forecast of a step of {type(given).__name__} needs a batch: forecast(model, batch).")
        return Recipe(given, batch, optimizer, loss, dtype, autocast)
    if not callable(given):
        raise NotAStep(f"forecast() takes a model or a function that does a step, not a {type(given).__name__}.")
    needed = _needed(given)
    if batch is not None and needed:
        names = ", ".join(needed)
        raise NotAStep(
            "with a batch, the first argument is a model or a function without arguments that builds one, and this "
            f"function needs {names}. If it does a step, call it with them: forecast(lambda: step({names}))."
        )
    if batch is not None:
        return Recipe(given, batch, optimizer, loss, dtype, autocast)
    if needed:
        raise NotAStep(
            f"{getattr(given, '__name__', 'the step')}() is called without arguments, but it needs "
            f"{listed([f'`{name}`' for name in needed])}. Give the forecast a function without arguments, such as "
            "`def step(): train(...)`, or the model and a batch."
        )
    if optimizer is not None or loss is not None:
        raise NotAStep("an optimizer and a loss are for a model and a batch: forecast(model, batch, optimizer).")
    return Script(given, dtype, autocast)


def _needed(function: Any) -> list[str]:
    """Return the names of the parameters that a function cannot be called without."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # it shows no signature
        return []
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [each.name for each in parameters if each.default is each.empty and each.kind not in variable]


def floating(given: torch.dtype | str | None) -> torch.dtype | None:
    """Return a floating-point type by its name, such as "bfloat16". Raises ValueError where it is none."""
    found = getattr(torch, given.removeprefix("torch."), None) if isinstance(given, str) else given
    if found is not None and isinstance(found, torch.dtype) and found.is_floating_point:
        return found
    if given is None:
        return None
    raise ValueError(f'{given!r} is not a floating-point dtype: use torch.bfloat16 or "bfloat16".')


def _device(given: str | None, memory: int | None) -> str:
    if given is None:
        return "cuda" if memory is not None or torch.cuda.is_available() else "cpu"
    kind = str(given).partition(":")[0]
    if kind not in ("cuda", "cpu"):
        raise ValueError(f'A forecast is for "cuda" or "cpu", not {given!r}.')
    return kind


@contextmanager
def _progress(steps: int) -> Iterator[Callable[[], None]]:
    """Show on a terminal how far it is, and take it away at the end."""
    from backsight.text.console import Console
    from backsight.text.rich import Progress

    console = Console(stderr=True)
    progress = Progress(
        console=console,
        transient=True,
        redirect_stdout=False,  # what the step prints stays where it prints it
        redirect_stderr=False,
        disable=not console.is_terminal,
    )
    with progress:
        task = progress.add_task("forecast", total=steps)
        yield partial(progress.advance, task)
