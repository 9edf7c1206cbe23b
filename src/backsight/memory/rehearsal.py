"""A rehearsal: some steps of a training, done with fake tensors in one way, and their memory as a history."""

from __future__ import annotations

import linecache
import logging
import os
import sys
import traceback
import types
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import Path
from types import FunctionType, MethodType
from typing import Any

import torch
from torch.optim import Optimizer
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from backsight.gradient_release import release
from backsight.memory import checkpointed
from backsight.memory._torch import (
    CHECKS,
    FAKE_DISPATCH,
    FAKE_LOG,
    NO_VALUES,
    NOT_FAKE,
    DataDependentOutput,
    FakeTensorMode,
    without_modes,
)
from backsight.memory.follow import Follow
from backsight.memory.inside import Doubt, Inside
from backsight.memory.ledger import History
from backsight.memory.like_cuda import LikeCUDA
from backsight.memory.on_cpu import OnCPU
from backsight.memory.tensors import tensors_of
from backsight.memory.training import NotAStep, Recipe, Script, Training
from backsight.memory.way import Implementation, Way
from backsight.quiet import quietly
from backsight.random_state import random_state_kept

_OURS = tuple(str(folder) + os.sep for folder in (Path(torch.__file__).parent, Path(__file__).parents[1]))
_RETURN = "Return (model, batch, optimizer) from it."


class CannotForecast(RuntimeError):
    """The step cannot be imagined: it needs the values of tensors, or an operator that has no fake form."""


def settled(subject: Recipe | Script) -> Recipe | Script:
    """Return a subject of which it is known what it does; a function is called to see that."""
    if isinstance(subject, Recipe):
        return subject
    with _imagining(subject) as mode:
        return subject.settled(mode)


@dataclass(frozen=True)
class Sight:
    """A training as it stands: its way, what its optimizers know besides, and what could be put on it."""

    way: Way
    known: tuple[Implementation, ...] = ()
    optimizers: tuple[str, ...] = ()
    """Their classes."""
    blocks: bool = False
    """Whether the model has blocks that can be checkpointed."""
    factored: bool = False
    """Whether gradients are clipped by keeping their factors, which needs real tensors."""


def look(subject: Recipe | Script, device: str) -> Sight:
    """Return what a training is, without doing a step."""
    with _imagining(subject) as mode:
        training = subject.imagine(mode)
    blocks = any(checkpointed.checkpointable(model) for model in training.models)
    if not training.optimizers:
        return Sight(Way(), blocks=blocks)
    first = training.optimizers[0]
    bucket = training.releases[0].bucket if training.releases else None
    clippings = [attached.clipping for attached in training.releases if attached.clipping is not None]
    factored = any(clipping.method != "two-pass" for clipping in clippings)
    kinds = tuple(dict.fromkeys(type(each).__name__ for each in training.optimizers))
    return Sight(Way(implementation(first, device), bucket), implementations(first), kinds, blocks, factored)


@dataclass(frozen=True)
class Rehearsal:
    """Some steps of a training: their memory, and which parameters got a gradient, as (optimizer, group, index).

    That is None where it cannot be used to give another rehearsal its optimizer state without a step.
    """

    history: History
    trained: frozenset[tuple[int, int, int]] | None
    doubts: tuple[Doubt, ...] = ()
    """Where an operator may have taken more than is in the history."""


def rehearse(
    subject: Recipe | Script,
    way: Way,
    device: str,
    steps: int = 2,
    done: Callable[[], None] = lambda: None,
    trained: frozenset[tuple[int, int, int]] | None = None,
    inside: Inside | None = None,
) -> Rehearsal:
    """Do some steps in one way; `done` is called after each. Two reach a steady state.

    With `trained`, of another way, the optimizer has its state at once, and one step less does: a step takes seconds in
    a model of billions of parameters. `inside` tells what operators allocate besides their results.
    """
    recurrent = None if device == "cpu" else set() if inside is None else inside.recurrent
    with _imagining(subject, recurrent) as mode:
        training = subject.imagine(mode)
        _prepare(training, way, device)
        if trained is not None and steps > 1:
            _fill_state(training, trained)
            steps -= 1
        _release(training, way.release)
        with Follow(inside) as follow:
            follow.hold(*training.models, *training.optimizers, training.inputs)
            for _ in range(steps):
                returned = training.step()
                done()
        history = follow.history()
    trains = any(span.phase == "backward" for span in history.spans)
    if isinstance(returned, (FunctionType, MethodType, partial)) and not trains:
        name = getattr(subject.function, "__name__", "The function") if isinstance(subject, Script) else "The step"
        raise NotAStep(
            f"{name} returned a function and ran no backward, so it is no step.",
            f"Forecast what it returns: forecast({name}()).",
            "Name a function that does the step, or returns (model, batch, optimizer).",
        )
    if not history.blocks:
        raise NotAStep("the step created no tensor, so there is nothing to forecast.")
    return Rehearsal(history, _trained(training) if isinstance(subject, Recipe) else None, tuple(follow.doubts))


def _trained(training: Training) -> frozenset[tuple[int, int, int]] | None:
    """Return which parameters an optimizer has a state for; None for optimizers other than PyTorch's."""
    if not all(type(optimizer).__module__.startswith("torch.optim.") for optimizer in training.optimizers):
        return None
    return frozenset(
        (number, place, index)
        for number, optimizer in enumerate(training.optimizers)
        for place, group in enumerate(optimizer.param_groups)
        for index, parameter in enumerate(group["params"])
        if optimizer.state.get(parameter)
    )


def _fill_state(training: Training, trained: frozenset[tuple[int, int, int]]) -> None:
    """Let the optimizers make their state, by a step with gradients that nobody has computed."""
    for number, place, index in sorted(trained):
        parameter = training.optimizers[number].param_groups[place]["params"][index]
        parameter.grad = torch.empty_like(parameter)
    for optimizer in training.optimizers:
        optimizer.step()
        optimizer.zero_grad()


def implementations(optimizer: Optimizer) -> tuple[Implementation, ...]:
    """Return the implementations that an optimizer knows, the slowest first."""
    group = optimizer.param_groups[0]
    fused: tuple[Implementation, ...] = ("fused",) if "fused" in group else ()
    return ("loop", "foreach", *fused) if "foreach" in group else fused


def implementation(optimizer: Optimizer, device: str) -> Implementation | None:
    """Return what an optimizer uses on a device: what it was asked to, else foreach on CUDA, else a loop."""
    known, group = implementations(optimizer), optimizer.param_groups[0]
    if "fused" in known and group["fused"]:
        return "fused"
    if "foreach" not in known:
        return None
    chosen = group["foreach"]
    if chosen is None:
        chosen = device == "cuda" and not group.get("differentiable")
    return "foreach" if chosen else "loop"


def _prepare(training: Training, way: Way, device: str) -> None:
    """Put a way on a training. Raises NotAStep where there is nothing to put it on."""
    if way.release is not None and not training.optimizers:
        raise NotAStep(f"the function has no optimizer for gradient release. {_RETURN}")
    if way.checkpointing and not training.models:
        raise NotAStep(f"the function has no model for checkpointing. {_RETURN}")
    for optimizer in training.optimizers:
        known = implementations(optimizer)
        wanted = way.implementation if way.implementation in known else implementation(optimizer, device)
        for group in optimizer.param_groups:
            if "fused" in known:
                group["fused"] = wanted == "fused"
            if "foreach" in known:
                group["foreach"] = wanted == "foreach"
    if way.checkpointing:
        for model in training.models:
            checkpointed.apply(model, way.checkpointing)


def _release(training: Training, bucket: str | float | None) -> None:
    """Attach gradient release with this bucket, where it is not attached so; take it away if that is None."""
    kept = {id(attached.optimizer) for attached in training.releases if attached.bucket == bucket}
    for attached in training.releases:
        if attached.bucket != bucket:
            attached.remove()
    if bucket is not None:
        with without_modes():  # an optimizer that is not PyTorch's is tried out with real numbers
            for optimizer in training.optimizers:
                if id(optimizer) not in kept:
                    release(optimizer, bucket=bucket)


class OneMode(FakeTensorMode):  # type: ignore[misc]  # PyTorch's is untyped
    """Fake tensors whose deep copies are of the same mode.

    PyTorch copies the mode with a tensor's attributes (`Tensor.__deepcopy__`). To this mode the copy is then no fake
    tensor: each operator that takes it gets another one, with memory of its own, and so views count like copies.
    """

    def __deepcopy__(self, memo: dict[int, Any]) -> OneMode:
        return self


@contextmanager
def _imagining(subject: Recipe | Script, recurrent: set[str] | None = None) -> Iterator[Any]:
    """Fake tensors on the CPU, and errors that tell of the forecast; for CUDA, `recurrent` is told what is met."""
    mode = OneMode(allow_non_fake_inputs=True)
    with ExitStack() as stack:
        stack.enter_context(_explained(subject))
        stack.enter_context(_unlogged())
        stack.enter_context(quietly(UserWarning, "Accessing the data pointer of FakeTensor"))  # modules of PyTorch do
        stack.enter_context(random_state_kept())  # each way begins with the same numbers
        stack.enter_context(torch.device("cpu"))  # before OnCPU, which does not see a default device
        stack.enter_context(mode)
        if recurrent is not None:
            stack.enter_context(LikeCUDA(recurrent))  # before OnCPU, which then has autocast as on CUDA
        stack.enter_context(OnCPU(mode))
        stack.enter_context(MadeUpValues())
        stack.enter_context(torch.enable_grad())
        yield mode


@contextmanager
def _unlogged() -> Iterator[None]:
    """Keep PyTorch from logging the traceback of an error that is raised, and explained, anyhow."""
    logger = logging.getLogger(FAKE_LOG)
    logger.addFilter(_nothing)
    try:
        yield
    finally:
        logger.removeFilter(_nothing)


def _nothing(record: logging.LogRecord) -> bool:
    return False


@contextmanager
def _explained(subject: Recipe | Script) -> Iterator[None]:
    try:
        yield
    except NO_VALUES as error:
        does_a_step = isinstance(subject, Script) and not subject.makes_parts
        instead = ", or pass forecast the model, a batch and the optimizer instead of the step" if does_a_step else ""
        raise CannotForecast(
            f"the step reads tensor values, but a forecast only knows shapes: {error.func}{_where(error)}. "
            f"Remove what reads values (`.item()`, `if loss > 1`, `nonzero`, masks as indices){instead}."
        ) from error
    except NOT_FAKE as error:
        raise CannotForecast(
            f"an operator of the step has no fake implementation, which gives the shapes of its results: "
            f"{error}{_where(error)}. Register one for your own operator with torch.library.register_fake."
        ) from error
    except Exception as error:
        operator = stricter(error)
        if operator is None:
            raise
        raise CannotForecast(
            f"{operator} accepts these tensors, but its fake implementation, which gives the shapes of its results, "
            "refuses "
            f"them{_where(error)}: {error} Forecast the step with the inputs it asks for, or without this operator."
        ) from error


def _where(error: BaseException) -> str:
    """Return the line of the user's program in which an error arose, as ", at `x.item()`, train.py:41"."""
    walked = traceback.walk_tb(error.__traceback__)
    called = takewhile(lambda step: step[0].f_code is not FAKE_DISPATCH, walked)  # what comes then is an operator's own
    for frame in reversed(traceback.StackSummary.extract(called)):
        if not frame.filename.startswith((*_OURS, "<")):
            line = linecache.getline(frame.filename, frame.lineno or 0).strip()
            return f", at `{line}`, {os.path.basename(frame.filename)}:{frame.lineno}"
    return ""


_MOST = 2**28
"""Bytes of arguments with which an operator is tried for real."""


def stricter(error: BaseException) -> str | None:
    """Return the operator whose fake form raised an error that the real one does not raise.

    None if the real one does too, since then the program is wrong, or if its arguments are too large to try.
    """
    frame = _refused(error)
    if frame is None:
        return None
    func, args, kwargs = (frame.f_locals.get(name) for name in ("func", "args", "kwargs"))
    size = sum(each.numel() * each.element_size() for each in tensors_of((args, kwargs)))
    if not callable(func) or size > _MOST:
        return None
    with without_modes(), torch.no_grad():
        try:
            args, kwargs = tree_map_only(torch.Tensor, _real, (args, kwargs))
            func(*args, **(kwargs or {}))
        except Exception:
            return None
    return str(func)


def _real(fake: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(fake.size(), fake.stride(), dtype=fake.dtype).zero_()


def _refused(error: BaseException) -> types.FrameType | None:
    """Return the innermost frame in which the fake form of an operator was called, among those of an error."""
    trace, found = error.__traceback__, None
    while trace is not None:
        if trace.tb_frame.f_code is FAKE_DISPATCH:
            found = trace.tb_frame
        trace = trace.tb_next
    return found


_READERS = {
    torch.Tensor.item: None,
    torch.Tensor.__float__: float,
    torch.Tensor.__int__: int,
    torch.Tensor.__bool__: bool,
}

_DEPTH = 12
"""Frames between a `step` and where it reads a value, at most."""


class MadeUpValues(TorchFunctionMode):
    """Answer 1 where an optimizer's step, or a distribution that checks its arguments, reads a value that is not known.

    Adafactor reads the norm of each weight, others their step count. Such a value changes the size of the update, and
    not that of a tensor; `Normal(mean, scale)` asks whether all arguments are valid, and does nothing else if they are.
    A model or a loop that reads one may well do something else then, and gets the error.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in _READERS:
            return func(*args, **(kwargs or {}))
        try:
            return func(*args, **(kwargs or {}))
        except DataDependentOutput:
            if not _may_be_made_up():
                raise
        convert = _READERS[func] or (float if args[0].is_floating_point() else int)
        return convert(1)


def _may_be_made_up() -> bool:
    """Whether this is called from the step of an optimizer, or where a distribution checks what it was given."""
    frame = sys._getframe(2)
    for _ in range(_DEPTH):
        if frame.f_code in CHECKS:
            return True
        if frame.f_code.co_name == "step" and isinstance(frame.f_locals.get("self"), Optimizer):
            return True
        if frame.f_back is None:
            return False
        frame = frame.f_back
    return False
