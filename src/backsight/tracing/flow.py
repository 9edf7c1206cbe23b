"""Where gradients end: which operations cut a tensor that requires none off from those that did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import torch

from backsight.tape import Living
from backsight.tracing.facts import Severed, SeveredBy
from backsight.tracing.sites import Sites

MOST_CUTS = 6
"""Cuts that are kept of one tensor, the nearest first."""

DETACHED: frozenset[SeveredBy] = frozenset(("detach", "data", "no_grad", "inference", "item", "numpy", "rewrapped"))
"""Cuts that the program has made, rather than the operation itself."""

MOST_DEPARTURES = 256
_MOST_SCALARS = 256
_MOST_LOOKED_AT = 64
_MOST_KNOWN = 4096
_DEEPEST = 8


@dataclass(frozen=True, slots=True)
class Cut:
    """A cut as it is noted; see `Severed`. `position` is that of the argument whose gradient ends here, or its name;
    `way` is how the call was reached, of `Sites`."""

    by: SeveredBy
    op: str
    site: int
    position: int | str
    dtype: str
    way: int = field(default=0, compare=False)

    def __hash__(self) -> int:  # asked at every call without gradients
        return self.site


class Flow:
    """The cuts behind every live tensor, and the values that have left for Python."""

    def __init__(self, sites: Sites) -> None:
        self._sites = sites
        self._cuts: Living[tuple[Cut, ...]] = Living()
        self._fills: Living[Cut] = Living()
        self._departures: dict[int, Cut] = {}
        self._scalars: dict[int, tuple[Any, Cut]] = {}  # numbers are held: their identity is how they are known again
        self._last: tuple[Cut, tuple[Cut, ...]] | None = None
        self._arrays: Living[tuple[Cut, int]] = Living(self._forget_pointer)
        self._pointers: dict[int, int] = {}  # of the memory that arrays share with tensors, to their keys
        self._known: dict[tuple[SeveredBy, str, int, int | str, str, int], Cut] = {}
        self._inferred: Living[tuple[str, int, int]] = Living()
        self.has_inferred = False

    def cuts(self, tensor: Any) -> tuple[Cut, ...]:
        """Return what is known of a tensor; one made by `torch.from_numpy` is known by the array's memory."""
        found = self._cuts.of(tensor)
        if found is not None:
            return found
        held = self._arrays.at(self._pointers.get(_pointer(tensor), 0)) if self._pointers else None
        return (held[0],) if held is not None else ()

    def inherit(self, result: torch.Tensor, cuts: tuple[Cut, ...]) -> None:
        """Note that `result` comes from behind these cuts."""
        if cuts:
            self._cuts.put(id(result), result, cuts)

    def behind(self, given: Iterable[tuple[int | str, Any]]) -> tuple[tuple[Cut, ...], int | str | None]:
        """Return the cuts behind the tensors `given`, and the position of one that requires a gradient, if one does."""
        cuts: tuple[Cut, ...] = ()
        position: int | str | None = None
        for at, tensor in given:
            if position is None and tensor.requires_grad:
                position = at
            elif (known := self.cuts(tensor)) and known is not cuts:
                cuts = tuple(dict.fromkeys((*cuts, *known)))[:MOST_CUTS] if cuts else known
        return cuts, position

    def add(self, result: torch.Tensor, cuts: tuple[Cut, ...], new: Cut) -> None:
        """Note the cuts behind `result`, of which `new` is the nearest."""
        if new.site not in [each.site for each in cuts] or new not in cuts:
            cuts = (new, *cuts)[:MOST_CUTS]
        self.inherit(result, cuts)

    def fill(self, leaf: torch.Tensor, cut: Cut) -> None:
        """Note what has given a leaf the values of a result."""
        self._fills.put(id(leaf), leaf, cut)

    def filled(self, leaf: torch.Tensor) -> Cut | None:
        """Return what has given a leaf the values of a result; of more than one, the latest."""
        return self._fills.of(leaf)

    def cut(self, by: SeveredBy, op: str, site: int, position: int | str, dtype: str, way: int) -> Cut:
        """Return the cut that is described, the same one each time."""
        key = (by, op, site, position, dtype, way)
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            found = self._known[key] = Cut(*key)
        return found

    def infer(self, result: torch.Tensor, op: str, site: int, way: int) -> None:
        """Note which call has made `result`, in inference mode."""
        self.has_inferred = True
        self._inferred.put(id(result), result, (op, site, way))

    def infer_view(self, result: torch.Tensor, given: Iterable[tuple[int | str, Any]]) -> None:
        """Note that `result` is a view, made outside of inference mode, of one of the tensors `given`."""
        made = next((found for _, each in given if (found := self._inferred.of(each)) is not None), None)
        if made is not None:
            self._inferred.put(id(result), result, made)

    def inferred(self, tensor: torch.Tensor) -> Severed | None:
        """Tell which call has made a tensor, if that was in inference mode."""
        made = self._inferred.of(tensor)
        if made is None:
            return None
        op, site, way = made
        return self.told(Cut("inference", op, site, -1, "", way))

    def depart(self, cut: Cut, tensor: torch.Tensor, value: Any) -> None:
        """Note that what `tensor` holds was handed to Python as `value`."""
        self._departures.pop(cut.site, None)
        self._departures[cut.site] = cut
        self._last = cut, self.cuts(tensor)
        for _ in range(_DEEPEST):  # of a list of numbers, the first stands for all
            if type(value) is list and value:
                value = value[0]
        while len(self._departures) > MOST_DEPARTURES:
            del self._departures[next(iter(self._departures))]
        if type(value) in (float, complex):
            self._scalars.pop(id(value), None)
            self._scalars[id(value)] = value, cut
            while len(self._scalars) > _MOST_SCALARS:
                del self._scalars[next(iter(self._scalars))]
        elif type(value).__name__ == "ndarray":
            pointer = _pointer(tensor)
            self._arrays.put(id(value), value, (cut, pointer))
            if pointer:
                self._pointers[pointer] = id(value)

    def last_departure(self, code: CodeType) -> tuple[Cut, ...]:
        """Return the newest cut of an array that the function `code` has taken out of a tensor, and those behind it.

        What NumPy makes of an array is another one, and cannot be known again.
        """
        if self._last is None or self._last[0].by != "numpy":
            return ()
        site = self._sites.get(self._last[0].site)
        return (self._last[0], *self._last[1]) if site is not None and site.code is code else ()

    def returned(self, value: Any) -> tuple[Cut, ...]:
        """Return by which departures a value, or what a list holds, is known to have come to Python."""
        if type(value) in (list, tuple):
            found = (cut for each in value[:_MOST_LOOKED_AT] for cut in self.returned(each))
            return tuple(dict.fromkeys(found))[:MOST_CUTS]
        scalar = self._scalars.get(id(value))
        if scalar is not None and scalar[0] is value:
            return (scalar[1],)
        array = self._arrays.of(value)
        return (array[0],) if array is not None else ()

    def _forget_pointer(self, key: int, held: tuple[Cut, int]) -> None:
        if self._pointers.get(held[1]) == key:
            del self._pointers[held[1]]

    def severed(self, tensor: torch.Tensor) -> tuple[Severed, ...]:
        """Tell the cuts behind a tensor; that it was computed with frozen parameters alone is none."""
        return tuple(self.told(cut) for cut in self.cuts(tensor) if cut.by != "frozen")

    def departed(self) -> list[Cut]:
        """Return the departures to Python, the latest last."""
        return list(self._departures.values())

    def made(self) -> list[Cut]:
        """Return the cuts that were noted, each once."""
        return list(self._known.values())

    def told(self, cut: Cut) -> Severed:
        """Tell a cut as it is noted."""
        operands = {operand.position: operand.text for operand in self._sites.operands(cut.site)}
        line, callers = self._sites.line(cut.site), self._sites.callers(cut.way)
        return Severed(cut.by, cut.op, line, operands.get(cut.position, ""), cut.dtype, callers)

    def __len__(self) -> int:
        return len(self._cuts)


def _pointer(tensor: torch.Tensor) -> int:
    """Return where the values of a tensor begin, as NumPy sees it; 0 where it cannot."""
    if tensor.device.type != "cpu" or tensor.layout != torch.strided:
        return 0
    try:
        return tensor.data_ptr()
    except (RuntimeError, NotImplementedError):  # fake tensors, wrappers around others, those of functorch
        return 0


def reason(op: str, result: torch.Tensor) -> SeveredBy:
    """Return why `result` requires no gradient although what it was made of does."""
    if op in ("detach", "detach_"):
        return "detach"
    if op == ".data":
        return "data"
    if op == "grad":
        return "derivative"
    if torch.is_inference_mode_enabled():
        return "inference"
    if not torch.is_grad_enabled():
        return "no_grad"
    if not (result.is_floating_point() or result.is_complex()):
        return "integer"
    return "not differentiable"


def tensors(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[tuple[int | str, torch.Tensor]]:
    """Yield the tensors among arguments and in lists among them, each with the argument's position, or its name."""
    given: Iterable[tuple[int | str, Any]] = (*enumerate(args), *kwargs.items()) if kwargs else enumerate(args)
    for at, each in given:
        kind = type(each)
        if kind is torch.Tensor or issubclass(kind, torch.Tensor):
            yield at, each
        elif kind is list or kind is tuple:
            for inner in each:
                if issubclass(type(inner), torch.Tensor):
                    yield at, inner
