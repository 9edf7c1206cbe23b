"""What profiling needs of PyTorch beyond its documented surface, each with the reason.

`tests/profiling/test_private_surface_of_profiling.py` fails loudly when one of them changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, NamedTuple

import torch
from torch.autograd.graph import get_gradient_edge
from torch.nn.parameter import is_lazy
from torch.profiler import record_function

from backsight.profiling.hush import QuietProfiler
from backsight.surface import take, there
from backsight.tape import no_torch_function

EVALUATED = "autograd::engine::evaluate_function: "
"""What the engine writes before the name of a node, around all that it does for it: hooks, call, accumulation."""

ACCUMULATE = "AccumulateGrad"
"""The name of a leaf's node."""

_CPP = "torch::autograd::"  # before the names of a few nodes: AccumulateGrad, CopySlices

OPTIMIZER = ("Optimizer.step#", "Optimizer.zero_grad#")
"""What `torch.optim.Optimizer` writes before `AdamW.step` and `AdamW.zero_grad`."""

_BACKWARD_SCOPE = 1  # at::RecordScope::BACKWARD_FUNCTION, the call of a node inside of EVALUATED
_ON_CPU = frozenset({"cpu_op", "user_annotation", ""})  # and no CUDA runtime calls, which lie inside of operations


class Event(NamedTuple):
    """One event of a trace; times in nanoseconds. `sequence` is -1 where no gradient was recorded.

    In the backward pass `sequence` and `forward_thread` tell the node: its number in the thread that made it.
    """

    name: str
    start: int
    end: int
    thread: int
    sequence: int
    forward_thread: int
    correlation: int
    is_node_call: bool
    is_annotation: bool


def node_name(event: Event) -> str:
    """Return the name of the node that an event of the backward pass is about."""
    return event.name.removeprefix(EVALUATED).removeprefix(_CPP)


class Trace(NamedTuple):
    """The events on the CPU, and nanoseconds on a device by the `correlation` of the event that asked for them."""

    events: list[Event]
    on_device: dict[int, int]


def new_profiler() -> Any:
    """Return PyTorch's profiler, of every thread where this version can, of every device that is here."""
    wanted = {} if _every_thread is None else {"experimental_config": _every_thread}
    return QuietProfiler(**wanted)


_every_thread: Any = take(
    "torch._C._profiler._ExperimentalConfig",
    "profile of other threads",
    without=None,
    # Without it only the thread that starts the profiler, and what autograd runs for it, is seen.
    read=lambda config: config(profile_all_threads=True),
)
_knows_profiler: bool = there("torch.autograd.profiler._is_profiler_enabled", "other profilers")
_profiler_enabled: Callable[[], bool] = take(
    "torch._C._autograd._profiler_enabled", "other profilers", without=lambda: False
)


def is_profiling() -> bool:
    """Whether a profiler runs, for this thread or for all of them: a second one silently ends the first."""
    # Python's flag knows of every thread's, C++ also of those that were not started from Python.
    in_python = _knows_profiler and torch.autograd.profiler._is_profiler_enabled
    return bool(in_python or _profiler_enabled())


def mark(text: str) -> AbstractContextManager[Any]:
    """Return an event with this name for the trace: 0.5 µs, a tenth of the documented `record_function`."""
    marked: AbstractContextManager[Any] = _fast(text)
    return marked


_fast: Any = take("torch._C._profiler._RecordFunctionFast", "cheap marks of a profile", without=record_function)


def accumulator(leaf: torch.Tensor) -> Any:
    """Return the node that accumulates the gradient of `leaf`, None if it can have none.

    A leaf refers to its node weakly: a hook on it is lost unless the node is held.
    """
    if is_lazy(leaf) or not leaf.requires_grad or leaf.is_inference():
        return None
    with torch.inference_mode(False), no_torch_function():
        return get_gradient_edge(leaf).node


def results(profiler: Any) -> Any:
    """Return what a profiler that was stopped has seen. `profiler.events()` has the same, 20 times as slowly."""
    return profiler.profiler.kineto_results


def is_empty(seen: Any) -> bool:
    """Whether a profiler has seen nothing, as where another has ended it; to make the events takes long."""
    begin = getattr(seen, "trace_start_ns", None)
    return begin() == 0 if begin is not None else not seen.events()


def trace_of(seen: Any) -> Trace:
    """Return the events of what `results` gave."""
    events: list[Event] = []
    on_device: dict[int, int] = {}
    for event in seen.events():
        asked_by = event.linked_correlation_id()
        if event.device_type().name != "CPU":
            if asked_by > 0 and not event.is_user_annotation():
                on_device[asked_by] = on_device.get(asked_by, 0) + event.duration_ns()
        elif asked_by == 0 and getattr(event, "activity_type", str)() in _ON_CPU:
            events.append(_event(event))
    return Trace(events, on_device)


def _event(event: Any) -> Event:
    return Event(
        event.name(),
        event.start_ns(),
        event.end_ns(),
        event.start_thread_id(),
        event.sequence_nr(),
        event.fwd_thread_id(),
        event.correlation_id(),
        event.scope() == _BACKWARD_SCOPE,
        event.is_user_annotation(),
    )


def device_in(trace: Trace) -> str | None:
    """Return the device that worked, as `cuda`; None if only the CPU did."""
    if not trace.on_device:
        return None
    return next(iter(_accelerators()), "device")


def _accelerators() -> Iterator[str]:
    activities: Any = torch.profiler.supported_activities  # not typed
    for activity in activities():
        if activity.name != "CPU":
            yield activity.name.lower()
