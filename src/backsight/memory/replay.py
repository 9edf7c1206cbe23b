"""From reports to a history: allocations, claims, module calls and earlier storages, told to a ledger in order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from backsight.memory.allocator import ACCUMULATE, Allocation, Before, Entry, Place, Reports, Sight
from backsight.memory.calls import ModuleCalls
from backsight.memory.claims import Claim
from backsight.memory.kinds import settled
from backsight.memory.ledger import Block, History, Ledger, Phase

_COPIES = frozenset({"", "aten::clone", "aten::new_empty_strided", "aten::new_empty", "aten::add", "aten::empty_like"})
"""What AccumulateGrad calls for a gradient that it cannot take as it is."""

_Happened = Allocation | Sight | Entry | Claim | tuple[int, int]


def replayed(
    reports: Reports, before: Before, claims: Sequence[Claim], calls: ModuleCalls, device: str, began: int, ended: int
) -> History:
    """Return the history of one device."""
    return _Replay(reports, calls, device, began).told(before, claims, ended)


class _Replay:
    def __init__(self, reports: Reports, calls: ModuleCalls, device: str, began: int):
        self._reports = reports
        self._calls = calls
        self._device = device
        self._ledger = Ledger(began)
        self._read: set[int] = set()

    def told(self, before: Before, claims: Sequence[Claim], ended: int) -> History:
        claimed: dict[int, int] = {}
        for number, claim in enumerate(claims):
            claimed.setdefault(claim.address, number)
        # In the order of the model: Python tells of its objects in any order.
        for held in sorted(before.existing, key=lambda each: claimed.get(each.address, len(claims))):
            if held.device == self._device:
                block = self._ledger.existing(held.address, held.size, held.device)
                block.shape, block.dtype = held.shape, held.dtype
        happened: list[_Happened] = [*self._reports.happened, *claims, *before.deaths]
        happened.sort(key=_time)  # stable: what has the same time stays in its order
        for each in happened:
            self._tell(each)
        history = self._ledger.history(ended, self._calls.classes)
        for block in history.blocks:
            if block.number in self._read and block.kind == "other":
                block.kind = "inputs"
        return settled(history)

    def _tell(self, happened: _Happened) -> None:
        if isinstance(happened, Allocation):
            self._allocated(happened)
        elif isinstance(happened, Sight):
            self._seen(happened)
        elif isinstance(happened, Entry):
            if happened.place.phase is not None:
                self._ledger.enter(self._phase(happened.place, happened.time), happened.time)
        elif isinstance(happened, Claim):
            self._claimed(happened)
        else:
            moment, address = happened
            self._ledger.died(address, moment)

    def _allocated(self, report: Allocation) -> None:
        if report.device != self._device:
            return
        if report.size < 0:
            self._ledger.died(report.address, report.time)
            return
        if not report.size:
            return
        block = self._ledger.born(report.address, report.size, report.device, report.time)
        place = report.place
        block.op, block.phase, block.source = place.op, self._phase(place, report.time), place.source
        block.node = self._node(place)
        block.module = self._module(place, report.time)
        if place.node == ACCUMULATE and place.op in _COPIES:
            block.kind = "gradients"

    def _phase(self, place: Place, moment: int) -> Phase:
        if place.phase == "backward" and self._calls.at(moment) is not None:
            return "recomputation"
        return place.phase or self._ledger.phase

    def _node(self, place: Place) -> str:
        """Return the node that ran, or the one that the operator made."""
        if place.node:
            return f"{place.node} #{place.node_sequence}" if place.node_sequence >= 0 else place.node
        number = place.op_sequence
        made = number >= 0 and self._reports.makers.get(number) == place.op_event
        return f"{self._reports.nodes[number]} #{number}" if made and number in self._reports.nodes else ""

    def _module(self, place: Place, moment: int) -> str:
        running = self._calls.at(moment)
        if running is None and place.node_sequence >= 0:
            return self._calls.of_sequence(place.node_sequence)
        return running or ""

    def _seen(self, sight: Sight) -> None:
        block = self._ledger.living(sight.address)
        if block is None:
            return
        if block.shape is None or (not _fills(block, block.shape, block.dtype) and _fills(block, *_form(sight))):
            block.shape, block.dtype = _form(sight)
        if sight.gradient and block.kind == "other":
            block.kind = "gradients"
        if block.born < 0 and sight.place.phase == "forward":
            self._read.add(block.number)

    def _claimed(self, claim: Claim) -> None:
        block = self._ledger.living(claim.address)
        if block is None:
            return
        if claim.kind is not None and (block.kind == "other" or claim.kind != "inputs"):
            block.kind = claim.kind
        if claim.module is not None:
            block.module = claim.module
        if claim.name and (claim.kind is not None or not block.name):
            block.name = claim.name


def without(history: History, pauses: Sequence[tuple[int, int]]) -> History:
    """Return the history with its clock stopped during the pauses."""

    def running(times: Any) -> Any:
        return times - sum(np.clip(times - began, 0, ended - began) for began, ended in pauses)

    spans = tuple(replace(s, began=int(running(s.began)), ended=int(running(s.ended))) for s in history.spans)
    return replace(history, spans=spans, time=running(history.time), ended=int(running(history.ended)))


def _time(happened: _Happened) -> int:
    return happened[0] if isinstance(happened, tuple) else happened.time


def _form(sight: Sight) -> tuple[tuple[int, ...], str]:
    return sight.shape, sight.dtype


def _fills(block: Block, shape: tuple[int, ...], dtype: str) -> bool:
    """Whether a tensor of this shape is the whole of the block."""
    kind = getattr(torch, dtype, None)
    return isinstance(kind, torch.dtype) and math.prod(shape) * kind.itemsize == block.bytes
