"""`measure_memory`: bytes over time within a step, measured."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, overload

import torch

from backsight.memory._torch import fake_mode, without_log_warnings
from backsight.memory.allocator import Allocation, Before, first_device, profiler_of_memory, reports
from backsight.memory.calls import ModuleCalls
from backsight.memory.claims import Claims
from backsight.memory.ledger import History
from backsight.memory.replay import replayed, without
from backsight.memory.timeline import StepMemory
from backsight.profiling import hush_kineto, is_profiling
from backsight.surface import require
from backsight.tape import Models


@overload
def measure_memory(  # type: ignore[overload-overlap]  # a module can be called too; here it is a model
    step: Models = None, optimizer: torch.optim.Optimizer | None = None, *, model: Models = None, device: Any = None
) -> Measuring: ...
@overload
def measure_memory(
    step: Callable[[], Any],
    optimizer: torch.optim.Optimizer | None = None,
    *,
    model: Models = None,
    device: Any = None,
) -> StepMemory: ...
def measure_memory(
    step: Any = None, optimizer: torch.optim.Optimizer | None = None, *, model: Models = None, device: Any = None
) -> Any:
    """Measure the memory of a training step: each allocation, by kind, module and autograd node; the peak in words.

    ```python
    with backsight.measure_memory(model, optimizer) as m:
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
    print(m)                # "Peak 1.9 GB in the forward pass, at log_softmax: 3 × 823 MB ..."
    m.by_kind               # bytes at the peak
    m.plot("step.png")      # also m.table(), m.to_html("step.html"), m.export_chrome_trace("step.json")

    m = backsight.measure_memory(step)      # or a function that makes a step
    ```

    What counts are the bytes of storages: those that Python's tensors hold at the start, and from there each report of
    the allocator itself, so that what operators take inside of C++ is seen. Numbers of the training are the same to the
    last bit, and nothing stays attached. A step takes up to three times as long while it is measured, and about a
    tenth of a second more, in which the variables are looked for that hold the largest tensors (`bench/measuring.py`).

    Args:
        step: a function without arguments that makes a step; or, for a `with`, the model or models by name.
        optimizer: whose state is named from the start; without it optimizers are met when they step.
        model: the model or models by name, where `step` is a function.
        device: what to measure, such as "cpu" or "cuda:0"; the accelerator, if one is used, by default.

    What is what. Parameters (and buffers), gradients and optimizer state are what models and optimizers say. "saved for
    backward" is what a forward pass made and the next backward pass freed. "inputs" are given to a model or were read
    by a forward pass and were there before; "other" is what was there or is left and belongs to none of these: results
    that a variable holds, for instance. All else is temporary. What other processes and threads take is not seen.

    On CUDA the bytes are those of the caching allocator's blocks; that has not been tested on a GPU.

    An exception of the step passes, and `m` of a `with` tells what was seen until then; where `step` is a function, the
    peak is noted on the exception.

    Raises:
        TypeError: if the model, the optimizer or the step is something else.
        Unavailable: if this PyTorch lacks something that measuring needs.
        RuntimeError: if a profiler runs already, or tensors are fake (then `backsight.forecast` is what is wanted).
    """
    require("measured memory")
    if isinstance(step, torch.nn.Module) or step is None or isinstance(step, dict):
        if step is not None and model is not None:
            raise TypeError("measure_memory() got two models; pass several as one dict, by name.")
        return Measuring(step if step is not None else model, optimizer, device)
    if not callable(step):
        raise TypeError(
            "measure_memory() takes a function that does a step, or for a `with` a torch.nn.Module or a dict of them "
            f"by name, not {type(step).__name__}."
        )
    measuring = Measuring(model, optimizer, device)
    try:
        with measuring as measured:
            step()
    except Exception as failure:
        if hasattr(failure, "add_note") and measuring.measured.ended:  # from Python 3.11
            failure.add_note(f"Memory until then, as measured by backsight: {measuring.measured.at_peak}.")
        raise
    return measured


class Measuring:
    """The measurement of what runs inside of its `with`; gives the `StepMemory`, which is filled at the end."""

    def __init__(self, model: Models, optimizer: torch.optim.Optimizer | None, device: Any):
        self._models = _checked_models(model)
        if optimizer is not None and not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(f"optimizer must be a torch.optim.Optimizer, not {type(optimizer).__name__}.")
        self._optimizer = optimizer
        self._device = None if device is None else _named_device(device)
        self.measured = StepMemory()
        self._stack = ExitStack()

    def __enter__(self) -> StepMemory:
        if self.measured.ended or hasattr(self, "_profiler"):
            raise RuntimeError("this measurement is finished; call measure_memory() again for another.")
        if is_profiling():
            raise RuntimeError(
                "a profiler is running, but measure_memory() needs it: measure and profile in separate steps."
            )
        if fake_mode() is not None:
            raise RuntimeError(
                "tensors are fake here and take no memory; backsight.forecast() predicts what they would take."
            )
        hush_kineto()
        gc.collect()  # garbage that went during the step would count as held before it
        with ExitStack() as stack:
            self._claims = stack.enter_context(Claims())
            self._calls = ModuleCalls(self._models, met=self._claims.model, called=self._claims.inputs)
            self._models = None
            if self._optimizer is not None:
                self._claims.optimizer(self._optimizer)
            self._optimizer = None
            stack.enter_context(self._calls)
            self._before = Before()
            self._began = time.time_ns()
            stack.enter_context(without_log_warnings())
            self._profiler = stack.enter_context(profiler_of_memory())
            self._stack = stack.pop_all()
        return self.measured

    def __exit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        ended = time.time_ns()
        self._claims.finish()
        self._stack.close()
        self._before.forget()
        self._calls.forget()
        try:
            self.measured.fill(*self._told(ended), failed="" if kind is None else kind.__name__)
        except Exception:
            if kind is None:  # the exception of the step is the one to pass on
                raise

    def _told(self, ended: int) -> tuple[History, tuple[str, ...]]:
        found = reports(self._profiler)
        allocations = [each for each in found.happened if isinstance(each, Allocation)]
        device = self._device or first_device(allocations, self._before.existing)
        others = {each.device for each in allocations} - {device}
        history = replayed(found, self._before, self._claims.written, self._calls, device, self._began, ended)
        return without(history, self._claims.pauses), tuple(sorted(others))


def _checked_models(model: Any) -> Models:
    if model is None or isinstance(model, torch.nn.Module):
        return model
    if not isinstance(model, dict):
        raise TypeError(f"model must be a torch.nn.Module or a dict of them by name, not {type(model).__name__}.")
    for name, each in model.items():
        if not isinstance(name, str) or not isinstance(each, torch.nn.Module):
            raise TypeError(f"model[{name!r}] must be a torch.nn.Module under a name, not {type(each).__name__}.")
    return model


def _named_device(device: Any) -> str:
    """Return a device as the allocator names it."""
    named = torch.device(device)
    if str(named) == "cuda":
        return f"cuda:{torch.cuda.current_device()}"
    return str(named)
