"""The births of NaN and infinities: which operation was given finite values and returned others.

A result is summed first: the sum is not finite if a value is not, and costs a fraction of `isfinite`. Only where it is
not (a sum may also overflow) are the values themselves looked at.

To read a sum of a device is to wait for all that was queued there. So results on a device are marked, and the marks are
read together, when a backward begins and when somebody asks what was found. What was given to an operation is looked at
then, if it is still there as it was; in a backward, one value of each operand is put aside with the mark.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import torch

from backsight.naming.roots import ours
from backsight.tape import (
    RAW,
    Living,
    can_read,
    forward_class,
    is_captured,
    made_by,
    no_torch_dispatch,
    no_torch_function,
    sequence_number,
    unnumbered,
)
from backsight.tape.rows import dtype_name
from backsight.tape.saved import held_by_custom
from backsight.tape.walk import walk
from backsight.tracing._torch import is_traced
from backsight.tracing.changes import version
from backsight.tracing.facts import NonFinite, Values
from backsight.tracing.flow import tensors
from backsight.tracing.kinds import name_of
from backsight.tracing.marks import MOST, Mark, Marks, can_mark, is_near, known, state_of
from backsight.tracing.sites import Sites

KEPT = 64
"""Births that are kept, the first ones: what follows from them is of less interest."""

SHOWN = 4
"""Values that are told of each operand."""

NAN, INF = 1, 2


class _Held(NamedTuple):
    """A tensor that may be gone, or modified, when it is looked at."""

    tensor: weakref.ref[torch.Tensor]
    version: int
    shape: tuple[int, ...]

    def value(self) -> torch.Tensor | None:
        """Return the tensor if it is still there as it was."""
        tensor = self.tensor()
        return tensor if tensor is not None and version(tensor) == self.version else None


class Births:
    """Looks at every result of a forward pass, and at every gradient of a backward."""

    def __init__(self, sites: Sites, lines: Callable[[int], Any], fail: Callable[[BaseException], None]):
        self._sites, self._line_of, self._fail = sites, lines, fail
        self._found: dict[tuple[Any, ...], NonFinite] = {}
        self._lost: dict[int, None] = {}
        self._known: Living[int] = Living()  # what is not finite
        self._marks = Marks()
        self._later: list[Callable[[list[float]], None]] = []

    @property
    def found(self) -> dict[tuple[Any, ...], NonFinite]:
        """The births so far, in order."""
        self.settle()
        return self._found

    @property
    def lost(self) -> dict[int, None]:
        """The backwards that began from a loss that was not finite, the first ones."""
        self.settle()
        return self._lost

    def settle(self) -> None:
        """Wait for what devices were asked, if anything was, and take it down."""
        if not self._later or is_captured():
            return
        later, self._later = self._later, []
        numbers = self._marks.fetched()
        for told in later:
            told(numbers)

    def look(
        self,
        func: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        result: Any,
        site: Callable[[], int],
        first: int,
        end: int,
    ) -> None:
        """Look at the result of a call that made the nodes from `first` up to `end`."""
        node = end - 1 if end != first else None
        for out in result if type(result) in (tuple, list) else (result,):
            if not issubclass(type(out), torch.Tensor):
                continue
            if not is_near(out):
                self._look_later(func, args, kwargs, out, site, node)
                continue
            state = what_is(out)
            if not state:
                continue
            given = [t for _, t in tensors(args, kwargs)]
            before = [what_is(t) if t is not out else self._remembered(t) for t in given]
            self._remember(out, state)
            name = name_of(func)
            born = _born(state, before, _is_deliberate(name, args, kwargs, given))
            if born:
                self._tell_forward(name, site(), out, args, kwargs, born, node)

    def _look_later(
        self,
        func: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        out: torch.Tensor,
        site: Callable[[], int],
        node: int | None,
    ) -> None:
        """Have the result of a call on a device marked; whether something was born there is told later."""
        if not _numeric(out) or not can_mark(out):
            return
        named = list(tensors(args, kwargs))
        marked = [self._marks.before(t) if t is out else self._mark(t) for _, t in named]
        state, name, at = self._marks.of(out), name_of(func), site()
        deliberate = _is_deliberate(name, args, kwargs, [t for _, t in named])
        held = [(position, _held(t)) for position, t in named if t is not out and _numeric(t)]
        result, thread, dtype = _held(out), threading.get_ident(), dtype_name(out.dtype)

        def told(numbers: list[float]) -> None:
            born = _born(state_of(state, numbers), [state_of(each, numbers) for each in marked], deliberate)
            key = ("forward", at, name, born)
            if not born or key in self._found or len(self._found) >= KEPT:
                return
            there = result.value()
            bad = None if there is None else _bad(there, born)
            texts = {operand.position: operand.text for operand in self._sites.operands(at)}
            operands = tuple(_values_then(texts.get(position, ""), each, bad) for position, each in held)
            self._found[key] = NonFinite(
                "forward",
                "nan" if born == NAN else "inf",
                name,
                self._sites.line(at),
                operands,
                0 if bad is None else int(bad.sum()),
                math.prod(result.shape),
                thread=thread,
                node=node,
                dtype=dtype,
            )

        self._await(told)

    def _mark(self, tensor: torch.Tensor) -> Mark:
        if not _numeric(tensor):
            return known(0)
        return known(what_is(tensor)) if is_near(tensor) else self._marks.of(tensor)

    def _await(self, told: Callable[[list[float]], None]) -> None:
        self._later.append(told)
        if len(self._marks) >= MOST:
            self.settle()

    def _remembered(self, tensor: torch.Tensor) -> int:
        return self._known.of(tensor) or 0

    def _remember(self, tensor: torch.Tensor, state: int) -> None:
        self._known.put(id(tensor), tensor, state)

    def _tell_forward(
        self,
        op: str,
        site: int,
        out: torch.Tensor,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        born: int,
        node: int | None,
    ) -> None:
        key = ("forward", site, op, born)
        if key in self._found or len(self._found) >= KEPT:
            return
        bad = _bad(out, born)
        texts = {operand.position: operand.text for operand in self._sites.operands(site)}
        operands = tuple(
            _values(texts.get(at, ""), t, bad) for at, t in tensors(args, kwargs) if t is not out and _numeric(t)
        )
        self._found[key] = NonFinite(
            "forward",
            "nan" if born == NAN else "inf",
            op,
            self._sites.line(site),
            operands,
            int(bad.sum()),
            bad.numel(),
            thread=threading.get_ident(),
            node=node,
            dtype=dtype_name(out.dtype),
        )

    def before_backward(self, roots: Any, backward: int) -> Callable[[], None]:
        """Look at every gradient of a backward that begins; return what ends that."""
        given = [t for _, t in tensors((roots,), {})]
        marks = [self._mark(t) for t in given]
        if any(mark >= 0 for mark in marks):
            self._await(partial(self._tell_lost, backward, marks))
        else:
            self._tell_lost(backward, marks, [])
        self.settle()  # while what the graph has saved is there to be looked at
        starts = [node for t in given if (node := made_by(t)) is not None]
        if not starts:
            return lambda: None
        nodes = walk(starts).nodes
        with unnumbered():
            handles = [node.register_hook(self._hook(node, backward)) for node in nodes if node.next_functions]

        def end() -> None:
            for handle in handles:
                handle.remove()

        return end

    def _tell_lost(self, backward: int, marks: Sequence[Mark], numbers: list[float]) -> None:
        if len(self._lost) < KEPT and any(state_of(mark, numbers) for mark in marks):
            self._lost[backward] = None

    def _hook(self, node: Any, backward: int) -> Callable[[Any, Any], None]:
        def look(grad_inputs: Any, grad_outputs: Any) -> None:
            try:
                with no_torch_function(), no_torch_dispatch():  # the mode is on in a backward
                    saved: list[tuple[str, torch.Tensor]] | None = None
                    for out in grad_inputs:
                        if out is not None and not is_near(out):
                            if not _numeric(out) or not can_mark(out):
                                continue
                            if saved is None:
                                saved = [each for each in opened(node) if not is_near(each[1])]
                            self._gradient_later(node, backward, out, grad_outputs, saved)
                            continue
                        state = what_is(out) if out is not None else 0
                        if state:
                            self._gradient(node, backward, out, state, grad_outputs)
                            return
            except BaseException as failure:
                self._fail(ours(failure))

        return look

    def _gradient(self, node: Any, backward: int, out: torch.Tensor, state: int, grad_outputs: Sequence[Any]) -> None:
        had = [what_is(each) for each in grad_outputs if each is not None]
        born = _born(state, had, False)
        number = sequence_number(node)
        key = ("backward", backward, number, born)
        if not born or key in self._found or len(self._found) >= KEPT:
            return
        bad = _bad(out, born)
        incoming = next((g for g in grad_outputs if g is not None), None)
        line = self._line_of(number)
        self._found[key] = NonFinite(
            "backward",
            "nan" if born == NAN else "inf",
            node.name(),
            line[0] if line else None,
            tuple(_saved(node, bad, line[1] if line else ())),
            int(bad.sum()),
            bad.numel(),
            _at(incoming, bad) if incoming is not None else (),
            line[2] if line else 0,
            number,
            backward,
            dtype=dtype_name(out.dtype),
        )

    def _gradient_later(
        self,
        node: Any,
        backward: int,
        out: torch.Tensor,
        grad_outputs: Sequence[Any],
        saved: Sequence[tuple[str, torch.Tensor]],
    ) -> None:
        """Have a gradient on a device marked, with what came in and what the node has saved at its worst value."""
        alike = [(name, data) for name, data in saved if data.numel() == out.numel() and not data.is_complex()]
        worst = out.detach().flatten().abs().argmax().reshape(1) if alike else None
        state = self._marks.of(out)
        marked = [self._mark(each) for each in grad_outputs if each is not None]
        number, called, dtype, total = sequence_number(node), node.name(), dtype_name(out.dtype), out.numel()
        first = next((g for g in grad_outputs if g is not None), None)
        sampled = first is not None and not first.is_complex() and first.numel() == total and worst is not None
        incoming = self._put_aside(first, worst) if sampled else None
        aside = [(name, tuple(data.shape), self._put_aside(data, worst)) for name, data in alike]

        def told(numbers: list[float]) -> None:
            born = _born(state_of(state, numbers), [state_of(each, numbers) for each in marked], False)
            key = ("backward", backward, number, born)
            if not born or key in self._found or len(self._found) >= KEPT:
                return
            line = self._line_of(number)
            texts = _texts(line[1] if line else ())
            values = [(texts.get(name) or name, shape, numbers[mark]) for name, shape, mark in aside]
            self._found[key] = NonFinite(
                "backward",
                "nan" if born == NAN else "inf",
                called,
                line[0] if line else None,
                tuple(Values(text, shape, (value,), int(not math.isfinite(value))) for text, shape, value in values),
                0,
                total,
                (numbers[incoming],) if incoming is not None else (),
                line[2] if line else 0,
                number,
                backward,
                dtype=dtype,
            )

        self._await(told)

    def _put_aside(self, tensor: Any, at: Any) -> Mark:
        return self._marks.ask(tensor.detach().flatten().take(at).double().reshape(()))

    def forget(self) -> None:
        """Forget what was found: it has done no harm, and is not to keep others from being told."""
        self.found.clear()
        self._lost.clear()


def what_is(tensor: torch.Tensor) -> int:
    """Return whether values of a tensor are NaN or infinite; nothing is recorded on the tape."""
    if not _numeric(tensor) or is_traced() or (not is_near(tensor) and is_captured()):
        return 0
    plain = tensor.detach()
    try:
        total = plain.sum().item()
        if math.isfinite(total if type(total) is float else abs(total)):
            return 0
        return (NAN if bool(plain.isnan().any()) else 0) | (INF if bool(plain.isinf().any()) else 0)
    except (RuntimeError, NotImplementedError):  # nested, fake or on the meta device: there are no values to look at
        return 0


_FLOATING = frozenset(
    {torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.complex64, torch.complex128, torch.complex32}
)


def _numeric(tensor: torch.Tensor) -> bool:
    """Whether the values may not be finite, and can be looked at without the tensor's class being asked."""
    plain = type(tensor).__torch_dispatch__ is torch.Tensor.__torch_dispatch__
    return plain and tensor.dtype in _FLOATING and tensor.layout == torch.strided


def _born(state: int, before: Iterable[int], deliberate: bool) -> int:
    """Return what a result holds that nothing before held; what was asked for by name was not born."""
    had = 0
    for each in before:
        had |= each
    if state & NAN and not had & NAN and not (deliberate and not had):
        return NAN
    return INF if state & INF and not had and not deliberate else 0


def _is_deliberate(name: str, args: Sequence[Any], kwargs: Mapping[str, Any], given: Sequence[Any]) -> bool:
    return not given or "empty" in name or any(map(_is_not_finite, (*args, *kwargs.values())))


def _is_not_finite(value: Any) -> bool:
    return type(value) is float and not math.isfinite(value)


def _bad(tensor: torch.Tensor, born: int) -> torch.Tensor:
    plain = tensor.detach()
    return plain.isnan() if born == NAN else plain.isinf()


def _at(tensor: torch.Tensor, bad: torch.Tensor) -> tuple[float, ...]:
    """Return the values of a tensor where `bad` says; where the shapes do not tell, those that are largest."""
    plain = tensor.detach()
    if plain.is_complex():
        plain = plain.abs()
    try:
        shown = plain.broadcast_to(bad.shape)[bad][:SHOWN]
    except RuntimeError:  # a reduction, or a product of matrices
        flat = plain.flatten()
        shown = flat[flat.abs().float().nan_to_num(math.inf, math.inf, math.inf).topk(min(SHOWN, len(flat))).indices]
    return tuple(shown.tolist())


def _values(text: str, tensor: torch.Tensor, bad: torch.Tensor) -> Values:
    plain = tensor.detach()
    return Values(text, tuple(tensor.shape), _at(tensor, bad), int((~plain.isfinite()).sum()))


def _held(tensor: torch.Tensor) -> _Held:
    return _Held(weakref.ref(tensor), version(tensor), tuple(tensor.shape))


def _values_then(text: str, held: _Held, bad: torch.Tensor | None) -> Values:
    """Return what an operand holds, if it is as it was, and so is the result."""
    tensor = held.value()
    return Values(text, held.shape, ()) if tensor is None or bad is None else _values(text, tensor, bad)


def _saved(node: Any, bad: torch.Tensor, operands: Sequence[str]) -> Iterable[Values]:
    """Return what `node` has saved, as far as it lies open."""
    texts = _texts(operands)
    for name, data in opened(node):
        yield _values(texts.get(name) or name, data, bad)


def _texts(operands: Sequence[str]) -> dict[str, str]:
    return dict(zip(("result", "self", "other"), operands, strict=False))


def opened(node: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield what `node` has saved, as far as it lies open; unpacking might compute."""
    kind: Any = type(node)
    if forward_class(kind) is not None:
        raws = [(f"saved_tensors[{k}]", raw) for k, raw in enumerate(held_by_custom(node) or ())]
    else:
        raws = [(name.removeprefix(RAW), getattr(node, name)) for name in _fields(kind)]
    for name, raw in raws:
        if type(raw) in (tuple, list) or raw is None or not can_read(raw) or raw.unpack_hook is not None:
            continue
        if issubclass(type(raw.data), torch.Tensor) and _numeric(raw.data):
            yield name, raw.data


@cache
def _fields(node_type: type[Any]) -> tuple[str, ...]:
    """Return the attributes in which nodes of a type show what they have saved; `dir` is slow."""
    return tuple(name for name in dir(node_type) if name.startswith(RAW))
