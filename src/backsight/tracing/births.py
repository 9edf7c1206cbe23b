"""The births of NaN and infinities: which operation was given finite values and returned others.

A result is summed first: the sum is not finite if a value is not, and costs a fraction of `isfinite`. Only where it is
not (a sum may also overflow) are the values themselves looked at.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch

from backsight.tape import no_torch_function, sequence_number
from backsight.tape._torch import RAW, can_read, forward_class, raw_of_custom
from backsight.tape.rows import dtype_name
from backsight.tape.walk import walk
from backsight.tracing._torch import is_traced
from backsight.tracing.facts import NonFinite, Values
from backsight.tracing.flow import tensors
from backsight.tracing.kinds import name_of
from backsight.tracing.sites import Sites

KEPT = 64
"""Births that are kept, the first ones: what follows from them is of less interest."""

SHOWN = 4
"""Values that are told of each operand."""

NAN, INF = 1, 2


class Births:
    """Looks at every result of a forward pass, and at every gradient of a backward."""

    def __init__(self, sites: Sites, lines: Callable[[int], Any], fail: Callable[[Exception], None]):
        self._sites, self._line_of, self._fail = sites, lines, fail
        self.found: dict[tuple[Any, ...], NonFinite] = {}
        self.lost: dict[int, None] = {}
        """The backwards that began from a loss that was not finite, the first ones."""
        self._known: dict[int, tuple[weakref.ref[Any], int]] = {}  # what is not finite, by the id of the tensor

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
        for out in result if type(result) in (tuple, list) else (result,):
            state = what_is(out) if issubclass(type(out), torch.Tensor) else 0
            if not state:
                continue
            given = [t for _, t in tensors(args, kwargs)]
            before = [what_is(t) if t is not out else self._remembered(t) for t in given]
            self._remember(out, state)
            name = name_of(func)
            deliberate = not given or "empty" in name or any(map(_is_not_finite, (*args, *kwargs.values())))
            had = 0
            for each in before:
                had |= each
            born = NAN if state & NAN and not had & NAN and not (deliberate and not had) else 0
            born = born or (INF if state & INF and not had and not deliberate else 0)
            if born:
                node = end - 1 if end != first else None
                self._tell_forward(name, site(), out, args, kwargs, born, node)

    def _remembered(self, tensor: torch.Tensor) -> int:
        held = self._known.get(id(tensor))
        return held[1] if held is not None and held[0]() is tensor else 0

    def _remember(self, tensor: torch.Tensor, state: int) -> None:
        key = id(tensor)
        self._known[key] = weakref.ref(tensor, lambda _: self._known.pop(key, None)), state

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
        if key in self.found or len(self.found) >= KEPT:
            return
        bad = _bad(out, born)
        texts = {operand.position: operand.text for operand in self._sites.operands(site)}
        operands = tuple(
            _values(texts.get(at, ""), t, bad) for at, t in tensors(args, kwargs) if t is not out and _numeric(t)
        )
        self.found[key] = NonFinite(
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
        if len(self.lost) < KEPT and any(map(what_is, given)):
            self.lost[backward] = None
        starts = [t.grad_fn for t in given if t.grad_fn is not None]
        if not starts:
            return lambda: None
        nodes = walk(starts).nodes
        handles = [node.register_hook(self._hook(node, backward)) for node in nodes if node.next_functions]

        def end() -> None:
            for handle in handles:
                handle.remove()

        return end

    def _hook(self, node: Any, backward: int) -> Callable[[Any, Any], None]:
        def look(grad_inputs: Any, grad_outputs: Any) -> None:
            try:
                with no_torch_function():  # the mode is on in a backward, and need not see this
                    for out in grad_inputs:
                        state = what_is(out) if out is not None else 0
                        if state:
                            self._gradient(node, backward, out, state, grad_outputs)
                            return
            except Exception as failure:
                self._fail(failure)

        return look

    def _gradient(self, node: Any, backward: int, out: torch.Tensor, state: int, grad_outputs: Sequence[Any]) -> None:
        had = 0
        for each in grad_outputs:
            had |= what_is(each) if each is not None else 0
        born = NAN if state & NAN and not had & NAN else INF if state & INF and not had else 0
        number = sequence_number(node)
        key = ("backward", backward, number, born)
        if not born or key in self.found or len(self.found) >= KEPT:
            return
        bad = _bad(out, born)
        incoming = next((g for g in grad_outputs if g is not None), None)
        line = self._line_of(number)
        self.found[key] = NonFinite(
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

    def forget(self) -> None:
        """Forget what was found: it has done no harm, and is not to keep others from being told."""
        self.found.clear()
        self.lost.clear()


def what_is(tensor: torch.Tensor) -> int:
    """Return whether values of a tensor are NaN or infinite; nothing is recorded on the tape."""
    if not _numeric(tensor) or is_traced():
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
    """Whether the values may not be finite, and can be looked at."""
    return tensor.dtype in _FLOATING and tensor.layout == torch.strided


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


def _saved(node: Any, bad: torch.Tensor, operands: Sequence[str]) -> Iterable[Values]:
    """Return what `node` has saved, as far as it lies open; unpacking might compute."""
    if forward_class(type(node)) is not None:
        raws = [(f"saved_tensors[{k}]", raw) for k, raw in enumerate(raw_of_custom(node) or ())]
    else:
        raws = [(name.removeprefix(RAW), getattr(node, name)) for name in dir(node) if name.startswith(RAW)]
    texts = dict(zip(("result", "self", "other"), operands, strict=False))
    for name, raw in raws:
        if type(raw) in (tuple, list) or raw is None or not can_read(raw) or raw.unpack_hook is not None:
            continue
        if issubclass(type(raw.data), torch.Tensor) and _numeric(raw.data):
            yield _values(texts.get(name) or name, raw.data, bad)
