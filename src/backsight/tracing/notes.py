"""What is noted of a call into PyTorch: the nodes that it made, what it changed in place, where it ended a gradient."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from types import FrameType
from typing import Any, NamedTuple

import torch

from backsight.tape import is_leaf, made_by, no_torch_function
from backsight.tape.rows import dtype_name
from backsight.tracing._torch import next_number
from backsight.tracing.births import Births
from backsight.tracing.changes import version
from backsight.tracing.custom import account
from backsight.tracing.facts import SeveredBy
from backsight.tracing.flow import Cut, reason, tensors
from backsight.tracing.intervals import Intervals
from backsight.tracing.kinds import Kind, name_of
from backsight.tracing.log import Log
from backsight.tracing.program import innermost

_FILLS = {"copy_": 1, ".data =": 1, "__setitem__": 2}
"""What gives a tensor the values of another, and the position of that."""

Written = list[tuple[torch.Tensor, int]]
"""Tensors that a call may change, with their versions before it."""


class Call(NamedTuple):
    """A call into PyTorch: the function and its arguments, the number of the next node as it began, and who called."""

    function: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    kind: Kind
    first: int
    caller: FrameType | None


class _Here(threading.local):
    table: Intervals | None = None


class Notes:
    """Writes into `log` what calls did, and lets `births` look at their results."""

    def __init__(self, log: Log, births: Births | None):
        self.log, self.births = log, births
        self.here = _Here()

    def table(self) -> Intervals:
        """Return the intervals of this thread."""
        found = self.here.table
        if found is None:
            found = self.here.table = self.log.threads.here()
        return found

    def site(self, call: Call) -> int:
        """Return the site of a call; 0 where no frame of the program's is to be seen, as in an engine's own thread."""
        frame = innermost(call.caller)
        return 0 if frame is None else self.log.sites.of_call(frame, name_of(call.function), call.caller)

    def made(
        self,
        name: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        result: Any,
        first: int,
        end: int,
        caller: FrameType | None,
    ) -> int:
        """Note that a call made the nodes from `first` up to `end`; return its site."""
        table, frame = self.table(), innermost(caller)
        if frame is None:
            table.known = end
            return 0
        site, meetings = self.log.sites.of_call(frame, name, caller), self.log.meetings
        table.add(first, end, site)
        if meetings.is_new(site):
            with no_torch_function():
                meetings.note(site, name, args, kwargs)
                if type(result) is torch.Tensor and (node := made_by(result)) is not None:
                    self.log.sites.results.setdefault(site, set()).add(node.name())
        return site

    def done(self, call: Call, result: Any, written: Written) -> None:
        """Note what a call did that may do more than make nodes."""
        end = next_number()
        site = 0
        if end != call.first:
            site = self.made(name_of(call.function), call.args, call.kwargs, result, call.first, end, call.caller)
        for tensor, before in written:
            if version(tensor) != before:
                site = site or self.site(call)
                kind = "out" if "out" in call.kwargs else "in place"
                self.log.changes.note(tensor, before, name_of(call.function), kind, site)  # type: ignore[arg-type]  # one of two
        if call.kind is Kind.WRITES_FIRST and call.args:
            self._may_be_filled(call)
        if call.kind is Kind.LEAVES:
            self._departed(call, result)
        elif end == call.first or issubclass(type(result), tuple):  # the positions that `max` returns beside the values
            self._may_be_cut(call, result)
        if self.births is not None:
            at = lambda: site or self.site(call)  # noqa: E731  # asked for only where there is something to tell
            self.births.look(call.function, call.args, call.kwargs, result, at, call.first, end)

    def _may_be_cut(self, call: Call, result: Any) -> None:
        if call.kind is Kind.WRAPS and call.args:
            self.log.flow.inherit(result, self.log.flow.returned(call.args[0]) or self._taken_out(call, result))
        if call.kind is Kind.WRITES_FIRST and call.args:
            result = call.args[0]
        for each in result if issubclass(type(result), tuple | list) else (result,):
            if not issubclass(type(each), torch.Tensor):
                continue
            if not each.requires_grad or (call.kind is Kind.WRAPS and call.kwargs.get("requires_grad") is True):
                self.cut(call, each)  # what is wrapped with requires_grad=True is a new leaf

    def _may_be_filled(self, call: Call) -> None:
        """Note that a leaf was given the values of a result, whose graph ends there: `p.data.copy_(weights[name])`."""
        op, flow = name_of(call.function), self.log.flow
        given: Any = call.args[_FILLS[op]] if op in _FILLS and len(call.args) > _FILLS[op] else None
        if not issubclass(type(given), torch.Tensor) or not issubclass(type(call.args[0]), torch.Tensor):
            return
        leaf = self.log.changes.aliased(call.args[0])
        results = given.requires_grad and not is_leaf(given)
        if (results or flow.cuts(given)) and is_leaf(leaf):
            site = self.site(call)
            cut = Cut("data", op, site, _FILLS[op], "")
            flow.fill(leaf, cut)
            if results:
                flow.add(leaf, (), cut)
            self.log.meetings.latest[site] = call.first
            if self.log.meetings.is_open(site):
                with no_torch_function():
                    self.log.meetings.cut(site, [given])

    def differentiated(self, call: Call, result: Any) -> None:
        """Note the derivatives that have no graph of their own."""
        for each in result if type(result) is tuple else ():
            if issubclass(type(each), torch.Tensor) and not each.requires_grad:
                self.cut(call, each)

    def _taken_out(self, call: Call, result: Any) -> tuple[Cut, ...]:
        """Return what may be behind an array, or a number of NumPy's, that becomes a tensor in the function that took
        an array out of another tensor."""
        frame = innermost(call.caller)
        if frame is None or not issubclass(type(result), torch.Tensor) or not result.is_floating_point():
            return ()
        is_numpys = type(call.args[0]).__module__ == "numpy"
        return self.log.flow.last_departure(frame.f_code) if is_numpys else ()

    def cut(self, call: Call, result: torch.Tensor) -> None:
        """Note what `result`, which requires no gradient, is cut off from."""
        flow = self.log.flow
        if torch.is_inference_mode_enabled():
            self._inferred(call, result)
        elif flow.has_inferred and torch.Tensor.is_inference(result):
            flow.infer_view(result, tensors(call.args, call.kwargs))
        given = list(tensors(call.args, call.kwargs))
        cuts, position = flow.behind(given)
        frozen = position is None
        if cuts or not frozen:
            self.log.meetings.squared(name_of(call.function), given, result, lambda: self.site(call))
        if position is None:
            position = next((at for at, each in given if type(each) is torch.nn.Parameter), None) if not cuts else None
        if position is None:
            flow.inherit(result, cuts)
            return
        op = name_of(call.function)
        by: SeveredBy = "rewrapped" if call.kind is Kind.WRAPS else "frozen" if frozen else reason(op, result)
        dtype = dtype_name(result.dtype) if by == "integer" else ""
        frame, sites = innermost(call.caller), self.log.sites
        site = 0 if frame is None else sites.of_call(frame, op, call.caller)
        way = sites.way_to(site, frame) if by == "no_grad" or by == "inference" else 0
        flow.add(result, cuts, flow.cut(by, op, site, position, dtype, way))
        meetings = self.log.meetings
        meetings.latest[site] = call.first
        if meetings.is_open(site):
            with no_torch_function():
                meetings.cut(site, [each for _, each in given])
        if by == "data":
            self.log.changes.alias(result, next(each for at, each in given if at == position))

    def _inferred(self, call: Call, result: torch.Tensor) -> None:
        """Note where a tensor was made that autograd cannot save, as it was in inference mode."""
        frame = innermost(call.caller)
        if frame is not None and torch.Tensor.is_inference(result):
            op = name_of(call.function)
            site = self.log.sites.of_call(frame, op, call.caller)
            self.log.flow.infer(result, op, site, self.log.sites.way_to(site, frame))

    def _departed(self, call: Call, value: Any) -> None:
        tensor = call.args[0] if call.args else None
        if not issubclass(type(tensor), torch.Tensor) or tensor is None:
            return
        if tensor.requires_grad or self.log.flow.cuts(tensor):
            op = name_of(call.function)
            by: SeveredBy = "numpy" if op in ("numpy", "__array__") else "item"
            site = self.site(call)
            self.log.meetings.latest[site] = call.first
            if self.log.meetings.is_open(site):
                with no_torch_function():
                    self.log.meetings.cut(site, [tensor])
            self.log.flow.depart(Cut(by, op, site, 0, ""), tensor, value)

    def gap(self, table: Intervals, first: int, call: Call) -> None:
        """Account for nodes up to `first` that no call was seen to make: those of the custom Functions that run.

        The node is made before its forward is called, so it shows at the first call in there. What a forward was given
        and returns as it is, PyTorch makes a view of once it has ended.
        """
        returns_its_input = (
            call.function is torch.Tensor.view_as and call.args[0] is call.args[-1] and not torch.is_grad_enabled()
        )
        account(table, self.log.sites, first, call.caller, returns_its_input)


def may_write(call: Call) -> bool:
    """Whether `call` may change any tensor."""
    return call.kind is Kind.WRITES_FIRST or call.kind is Kind.WRITES_ANY or "out" in call.kwargs


def before(call: Call) -> Written:
    """Return what `call` may change."""
    if call.kind is Kind.WRITES_FIRST:
        found = [call.args[0]] if call.args and issubclass(type(call.args[0]), torch.Tensor) else []
    elif call.kind is Kind.WRITES_ANY:
        found = [tensor for _, tensor in tensors(call.args, call.kwargs)]
    else:
        out = call.kwargs.get("out")
        found = [tensor for _, tensor in tensors((out,), {})] if out is not None else []
    return [(tensor, version(tensor)) for tensor in found]
