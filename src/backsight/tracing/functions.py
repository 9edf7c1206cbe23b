"""The exact level: a mode that sees every call into PyTorch, and notes what it made, changed and cut off.

It does with each call what PyTorch would have done without it. Within a call it is switched off, so that of a function
written in Python, such as `F.cross_entropy`, the whole is seen and not its parts; a backward alone is entered, for the
hooks and the recomputations that run in it.

Source: torch/overrides.py, `TorchFunctionMode`, `redispatch_function`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from backsight.naming.frames import locals_of
from backsight.tracing._torch import APPLY, next_number, redispatched
from backsight.tracing.births import Births
from backsight.tracing.callers import called_from
from backsight.tracing.changes import version
from backsight.tracing.facts import SeveredBy
from backsight.tracing.flow import Cut, reason, tensors
from backsight.tracing.intervals import Intervals
from backsight.tracing.kinds import Kind, kind_of, name_of
from backsight.tracing.log import Log
from backsight.tracing.program import innermost

_kinds: dict[Any, Kind] = {}

SILENT, PLAIN = Kind.SILENT, Kind.PLAIN


class _Here(threading.local):
    """The intervals of a thread."""

    table: Intervals | None = None


class Functions(TorchFunctionMode):
    """The mode. It writes into `log` until it is given none; a mode that a thread has kept then only passes on."""

    def __init__(self, log: Log, births: Births | None = None):
        super().__init__()
        self.log: Log | None = log
        self.here = _Here()
        self._births = births

    def __torch_function__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        if torch.compiler.is_compiling() or self.log is None:
            return func(*args, **(kwargs or {}))
        kind = _kinds.get(func)
        if kind is SILENT:
            return func(*args, **kwargs) if kwargs else func(*args)
        if kind is None:
            kind = self._learn(func)
        log = self.log
        table = self.here.table
        if table is None:
            table = self.here.table = log.threads.here()
        first = next_number()
        if first != table.known:
            self._gap(table, first)
        if kind is not PLAIN or kwargs or self._births is not None:
            return self._special(kind, func, types, args, kwargs or {}, table, first)
        result = func(*args)
        try:
            end = next_number()
            if end != first:
                self._made(table, first, end, func, sys._getframe(1))
            elif type(result) is torch.Tensor and not result.requires_grad:
                self._cut(func, args, {}, result, sys._getframe(1))
        except Exception as failure:
            self._fail(failure)
        return result

    def _learn(self, func: Any) -> Kind:
        kind = kind_of(func)
        try:
            if len(_kinds) < 20_000:
                _kinds[func] = kind
        except TypeError:  # not hashable
            pass
        return kind

    def _made(self, table: Intervals, first: int, end: int, func: Any, caller: Any) -> int:
        """Note that a call made the nodes from `first` up to `end`; return its site."""
        frame = innermost(caller)
        if frame is None or self.log is None:  # a thread of the engine's own
            table.known = end
            return 0
        site = self.log.sites.of_call(frame, name_of(func), caller)
        table.add(first, end, site)
        return site

    def _site(self, func: Any, caller: Any) -> int:
        frame = innermost(caller)
        return self.log.sites.of_call(frame, name_of(func), caller) if frame is not None and self.log else 0

    def _cut(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any, caller: Any) -> None:
        """Note what `result`, which requires no gradient, is cut off from."""
        log = self.log
        if log is None:
            return
        cuts, position = log.flow.behind(tensors(args, kwargs))
        if position < 0:
            log.flow.inherit(result, cuts)
            return
        op = name_of(func)
        by = "rewrapped" if _kinds.get(func) is Kind.WRAPS else reason(op, result)
        dtype = str(result.dtype).removeprefix("torch.") if by == "integer" else ""
        log.flow.add(result, cuts, Cut(by, op, self._site(func, caller), position, dtype))
        if by == "data":
            log.changes.alias(result)

    def _special(
        self,
        kind: Kind,
        func: Any,
        types: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        table: Intervals,
        first: int,
    ) -> Any:
        """Call what does more than make nodes."""
        caller = sys._getframe(2)
        if kind is Kind.BACKWARD:
            return self._backward(func, types, args, kwargs, caller)
        if kind is Kind.GRADIENT:
            return called_from(caller, func, args, kwargs) if _warns(args[0]) else func(*args, **kwargs)
        if kind is Kind.WRAPS:
            result = called_from(caller, func, args, kwargs)
            written = []
        else:
            written = self._before(kind, args, kwargs)
            result = func(*args, **kwargs)
        try:
            self._after(kind, func, args, kwargs, result, table, first, written, caller)
        except Exception as failure:
            self._fail(failure)
        return result

    def _before(self, kind: Kind, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[tuple[Any, int]]:
        """Return the tensors that a call may change, with their versions before it."""
        try:
            return _written(kind, args, kwargs)
        except Exception as failure:
            self._fail(failure)
            return []

    def _after(
        self,
        kind: Kind,
        func: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        result: Any,
        table: Intervals,
        first: int,
        written: list[tuple[Any, int]],
        caller: Any,
    ) -> None:
        log = self.log
        if log is None:
            return
        end = next_number()
        site = self._made(table, first, end, func, caller) if end != first else 0
        for tensor, before in written:
            if version(tensor) != before:
                site = site or self._site(func, caller)
                log.changes.note(tensor, before, name_of(func), "out" if "out" in kwargs else "in place", site)
        if kind is Kind.LEAVES:
            self._depart(func, args, result, caller)
        elif end == first:
            changed = args[0] if kind is Kind.WRITES_FIRST and args else result
            self._severed(kind, func, args, kwargs, changed, caller)
        if self._births is not None:
            self._births.look(func, args, kwargs, result, lambda: site or self._site(func, caller), first, end)

    def _severed(
        self, kind: Kind, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any, caller: Any
    ) -> None:
        if kind is Kind.WRAPS and self.log is not None and args:
            self.log.flow.inherit(result, self.log.flow.returned(args[0]))
        for each in result if type(result) in (tuple, list) else (result,):
            if issubclass(type(each), torch.Tensor) and not each.requires_grad:
                self._cut(func, args, kwargs, each, caller)

    def _depart(self, func: Any, args: Sequence[Any], value: Any, caller: Any) -> None:
        log = self.log
        tensor = args[0] if args else None
        if log is None or not issubclass(type(tensor), torch.Tensor):
            return
        op = name_of(func)
        known = log.flow.cuts(tensor)
        if tensor is not None and (tensor.requires_grad or known):
            by: SeveredBy = "numpy" if op in ("numpy", "__array__") else "item"
            log.flow.depart(Cut(by, op, self._site(func, caller), 0, ""), tensor, value)

    def _backward(self, func: Any, types: Any, args: Sequence[Any], kwargs: Mapping[str, Any], caller: Any) -> Any:
        """Run a backward with the mode on, and note it."""
        log = self.log
        assert log is not None  # for the type checker: the caller has seen it
        entry, site, done, hooks = None, 0, False, None
        try:
            site = self._site(func, caller)
            entry = log.backwards.begin("grad" if func is torch.autograd.grad else "backward", site, kwargs)
            if self._births is not None and entry is not None and args:
                hooks = self._births.before_backward(args[0], entry.index)
        except Exception as failure:
            self._fail(failure)
        try:
            with self:
                result = redispatched(func, types, args, kwargs)
            done = True
            return result
        finally:
            log.backwards.end(entry, done)
            if hooks is not None:
                hooks()
            table = log.threads.here()
            now = next_number()
            if now != table.known and site:  # a backward that can be differentiated makes nodes
                table.add(table.known, now, site)

    def _gap(self, table: Intervals, first: int) -> None:
        """Account for nodes that no call was seen to make: those of custom Functions, if one is running."""
        try:
            begin = table.known
            table.known = first
            frame = sys._getframe(2)
            at: Any = frame
            while at is not None and at.f_code is not APPLY:
                at = at.f_back
            if at is not None and self.log is not None:
                user = innermost(at.f_back)
                cls = locals_of(at).get("cls")
                if user is not None:
                    name = cls.__name__ if isinstance(cls, type) else "apply"
                    table.add(begin, first, self.log.sites.of_call(user, name, at))
        except Exception as failure:
            self._fail(failure)

    def _fail(self, failure: Exception) -> None:
        log, self.log = self.log, None
        if log is not None:
            log.fail(failure)


def _written(kind: Kind, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[tuple[Any, int]]:
    if kind is Kind.WRITES_FIRST:
        found = [args[0]] if args and issubclass(type(args[0]), torch.Tensor) else []
    elif kind is Kind.WRITES_ANY:
        found = [tensor for _, tensor in tensors(args, kwargs)]
    else:
        out = kwargs.get("out")
        found = [tensor for _, tensor in tensors((out,), {})] if out is not None else []
    return [(tensor, version(tensor)) for tensor in found]


def _warns(tensor: Any) -> bool:
    """Whether reading the `.grad` of a tensor gives a warning: it is the result of an operation, and retains none."""
    return bool(tensor.requires_grad and not tensor.is_leaf and not tensor.retains_grad)
