"""What the allocator itself reports of a step, with the operator and the autograd node that each report came in.

`torch.profiler` with `profile_memory=True` writes down every allocation, inside of operators too, nested in the events
of the operators (`torch/csrc/profiler/collection.cpp`). Its clock is the one of `time.time_ns`.
"""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from backsight.memory._torch import BACKWARD, EVALUATE, STEP, USER, ZERO_GRAD, EventType, event_tree
from backsight.memory.ledger import Phase
from backsight.memory.lines import source_of
from backsight.memory.tensors import address_of, all_tensors, storage_of
from backsight.profiling import QuietProfiler
from backsight.tape import no_torch_function

ACCUMULATE = "AccumulateGrad"


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the step something happened: the phase, the operator and the autograd node, with sequence numbers."""

    phase: Phase | None = "forward"
    """None in `zero_grad`, which belongs to what it comes in."""
    op: str = ""
    op_sequence: int = -1
    op_event: int = -1
    node: str = ""
    node_sequence: int = -1
    source: str = ""
    began: int = 0
    """When the node or the method of an optimizer began that decides the phase."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """`size` bytes were taken at `address`, or freed if it is negative."""

    time: int
    address: int
    size: int
    device: str
    place: Place


@dataclass(frozen=True, slots=True)
class Sight:
    """An operator was given a tensor whose storage is at `address`; a `gradient` if it was to be accumulated."""

    time: int
    address: int
    shape: tuple[int, ...]
    dtype: str
    place: Place
    gradient: bool


@dataclass(frozen=True, slots=True)
class Entry:
    """An operator began."""

    time: int
    place: Place


@dataclass
class Reports:
    """Everything that was reported, in order of time; `nodes` are the names of nodes by sequence number."""

    happened: list[Allocation | Sight | Entry] = field(default_factory=list)
    nodes: dict[int, str] = field(default_factory=dict)
    makers: dict[int, int] = field(default_factory=dict)
    """The last operator that began with a sequence number: the one that made the node, if one was made."""
    sources: dict[int, str] = field(default_factory=dict)
    """The line of that operator."""


def reports(profiler: Any) -> Reports:
    """Return the reports of a closed profiler."""
    found = Reports()
    stack: list[tuple[Iterator[Any], Place]] = [(iter(event_tree(profiler)), Place())]
    optimizing: list[Any] = []
    number = 0
    while stack:
        events, place = stack[-1]
        event = next(events, None)
        if event is None:
            stack.pop()
            continue
        place = _while_optimizing(event, place, optimizing)
        if event.tag == EventType.Allocation:
            found.happened.append(_allocation(event, place))
        elif event.tag in (EventType.PyCall, EventType.PyCCall):
            stack.append((iter(event.children), replace(place, source=source_of(event) or place.source)))
        elif event.tag == EventType.TorchOp:
            number += 1
            if event.name.startswith((STEP, ZERO_GRAD)):
                optimizing.append(event)
            inner = _entered(event, place, number, found)
            found.happened.append(Entry(event.start_time_ns, inner))
            found.happened += _sights(event, inner)
            stack.append((iter(event.children), inner))
        else:
            stack.append((iter(event.children), place))
    found.happened.sort(key=lambda each: each.time)
    return found


def _while_optimizing(event: Any, place: Place, optimizing: list[Any]) -> Place:
    """Return the place of an event, which is the optimizer's while one of its methods runs.

    Their events begin in a call of Python's, `record_function.__enter__`, and outlive it, and so the tree does not
    show what is in them: their times do. What began later counts more, as the backward pass of a closure.
    """
    while optimizing and optimizing[-1].end_time_ns <= event.start_time_ns:
        optimizing.pop()
    if not optimizing or optimizing[-1].start_time_ns < place.began or optimizing[-1].start_tid != event.start_tid:
        return place
    return replace(place, **_optimizers(optimizing[-1].name), node="", node_sequence=-1)


def _optimizers(name: str) -> dict[str, Any]:
    return {"phase": "optimizer"} if name.startswith(STEP) else {"phase": None, "op": name.partition("#")[2]}


def _allocation(event: Any, place: Place) -> Allocation:
    said = event.extra_fields
    return Allocation(event.start_time_ns, said.ptr, said.alloc_size, str(said.device), place)


def _entered(event: Any, place: Place, number: int, found: Reports) -> Place:
    """Return the place inside of an operator, and write down its sequence number."""
    name, said = event.name, event.extra_fields
    if name.startswith(EVALUATE):
        node = name.removeprefix(EVALUATE).rpartition("::")[2]
        if said.sequence_number >= 0:
            found.nodes[said.sequence_number] = node
        source = found.sources.get(said.sequence_number, place.source)
        began = event.start_time_ns
        return Place("backward", node=node, node_sequence=said.sequence_number, source=source, began=began)
    if name.startswith((STEP, ZERO_GRAD)):
        return Place(**_optimizers(name), source=place.source, began=event.start_time_ns)
    if said.scope in (BACKWARD, USER):
        return place  # the inside of a node's evaluation, or a `record_function` of somebody
    if said.sequence_number >= 0:
        found.makers[said.sequence_number] = number
        found.sources[said.sequence_number] = place.source
        return replace(place, op=name, op_sequence=said.sequence_number, op_event=number)
    return place if place.op else replace(place, op=name, op_event=number)


def _sights(event: Any, place: Place) -> Iterator[Sight]:
    gradient = event.extra_fields.scope == BACKWARD and event.name.endswith(ACCUMULATE)
    for given in event.extra_fields.inputs:
        for tensor in given if isinstance(given, list) else (given,):
            address = getattr(tensor, "storage_data_ptr", None)
            if address:
                dtype = str(tensor.dtype).removeprefix("torch.")
                yield Sight(event.start_time_ns, address, tuple(tensor.sizes), dtype, place, gradient)


@dataclass(frozen=True, slots=True)
class Existing:
    """A storage that is there before the start."""

    address: int
    size: int
    device: str
    shape: tuple[int, ...]
    dtype: str


class Before:
    """The storages that are there when it is made, and when they die: of those the allocator's reports say nothing."""

    def __init__(self) -> None:
        self.existing: list[Existing] = []
        self.deaths: list[tuple[int, int]] = []
        self._references: list[weakref.ref[Any]] = []
        seen: set[int] = set()
        with no_torch_function():
            for tensor in all_tensors():
                address, storage = address_of(tensor), storage_of(tensor)
                if storage is None or not address or address in seen or not storage.nbytes():
                    continue
                seen.add(address)
                dtype = str(tensor.dtype).removeprefix("torch.")
                device, shape = str(tensor.device), tuple(tensor.shape)
                self.existing.append(Existing(address, storage.nbytes(), device, shape, dtype))
                self._references.append(weakref.ref(storage, self._noting(address)))

    def forget(self) -> None:
        """Stop to watch; what was seen stays."""
        self._references.clear()

    def _noting(self, address: int) -> Any:
        deaths = self.deaths
        return lambda _: deaths.append((time.time_ns(), address))


def profiler_of_memory() -> Any:
    """Return a profiler, to be entered, that writes down allocations, the tensors that operators are given, and lines.

    Lines take Python's one place for a profiler: where there is another, as cProfile, they are left out.
    """
    return QuietProfiler(
        activities=[torch.profiler.ProfilerActivity.CPU],
        profile_memory=True,
        record_shapes=True,
        with_stack=sys.getprofile() is None,
    )


def first_device(allocations: Iterable[Allocation], existing: Iterable[Existing]) -> str:
    """Return the device that took the most bytes: an accelerator if one was used at all."""
    sums: dict[str, int] = {}
    for taken in allocations:
        sums[taken.device] = sums.get(taken.device, 0) + max(0, taken.size)
    for held in existing:
        sums.setdefault(held.device, 0)
    return max(sums, key=lambda device: (sums[device] > 0 and device != "cpu", sums[device]), default="cpu")
