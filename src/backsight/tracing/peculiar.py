"""Calls that do something else than the program means, as the values show that they are given.

There is one look a function: those at losses, and those at what is computed before.

A call is looked at the first times that its line makes it, and each time that it has made it twice as often. What is
peculiar has to be so at several looks, and what may be so by chance at all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import Any, Literal

import torch

from backsight.tape import Living, is_jit_traced
from backsight.tape.saved import is_readable
from backsight.tracing.facts import Line
from backsight.tracing.program import innermost
from backsight.tracing.sites import Sites

Kind = Literal[
    "signs",
    "range",
    "blank",
    "logs",
    "mask",
    "quotient",
    "truncated",
    "padding",
    "hidden",
    "drawn",
    "same",
    "scales",
    "stacked",
    "outer",
    "inverted",
    "aligned",
]

_MOST = 512
_MOST_VALUES = 1 << 20
_FIRST_LOOKS = 4
FEWEST = 8
"""Rows, or values, below which they may be alike by chance."""


@dataclass(eq=False)
class Peculiar:
    """What is peculiar of the calls of `op` at a site: at `times` of `looks`, with `numbers` that tell of the last.

    `other` is a site that matters beside it: where it begins, or what it leads to; 0 for none. `used` tells, of what
    matters by its use alone, that it was used so.
    """

    kind: Kind
    site: int
    op: str
    looks: int = 0
    times: int = 0
    numbers: tuple[float, ...] = ()
    other: int = 0
    used: bool = False
    latest: bool = False
    """Whether the last look has said so."""

    @property
    def is_always(self) -> bool:
        return self.looks == self.times


@dataclass(frozen=True)
class Told:
    """The same, with the lines, and how the program wrote what was given."""

    seen: Peculiar
    line: Line
    operands: Mapping[int | str, str]
    other: Line | None
    of_other: Mapping[int | str, str]


class Call:
    """A call that was made at a site, with what a look may ask of it."""

    def __init__(self, book: Peculiarities, site: int, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any):
        self.book, self.site, self.args, self.kwargs, self.result = book, site, args, kwargs, result
        self.other = 0

    def given(self, at: int, name: str = "", otherwise: Any = None) -> Any:
        return self.args[at] if len(self.args) > at else self.kwargs.get(name, otherwise)

    def values(self, at: int, name: str = "") -> torch.Tensor | None:
        """Return an argument whose values can be read, and are not too many."""
        found = self.given(at, name)
        return found.detach() if can_read(found) else None


Said = tuple[Kind, bool, tuple[float, ...]]
"""Of which kind, whether it is peculiar this time, and numbers that tell of it."""

Look = Callable[[Call], Said | None]
LOOKS: dict[str, Look] = {}
_OF_MARKED: dict[Look, tuple[str, ...]] = {}
"""Looks that have something to say of marked tensors, or of an index, alone, and which marks these are."""

_BY_INDEX: set[Look] = set()


def looks(*names: str, of: tuple[str, ...] = (), by_index: bool = False) -> Callable[[Look], Look]:
    """Enter a look at these functions: `of` what is marked alone, `by_index` also where a tensor is an index."""

    def enter(look: Look) -> Look:
        LOOKS.update(dict.fromkeys(names, look))
        if of:
            _OF_MARKED[look] = of
        if by_index:
            _BY_INDEX.add(look)
        return look

    return enter


class Peculiarities:
    """What was seen at each site; and marks of tensors of which something is known that matters where they are used."""

    def __init__(self, sites: Sites) -> None:
        self._sites = sites
        self._calls: dict[int, int] = {}
        self._found: dict[int, Peculiar] = {}
        self.zeros: Living[int] = Living()
        """Whole numbers that became 0 throughout, by the site that made them."""
        self.averages: Living[tuple[int, int, int]] = Living()
        """Losses that are the mean of many entries: at which site, of how many, and of how many samples."""
        self.divergences: Living[tuple[int, int]] = Living()
        """Sums over all entries, and so over all samples, that have the form of a divergence: at which site, of how
        many samples."""
        self.pads: dict[tuple[int, ...], torch.Tensor] = {}
        """Which of the tokens that were looked up last are padding, by their shape."""
        self.padded: Living[tuple[int, tuple[int, ...], bool]] = Living()
        """What was padded: at which site, how long each sample is, and whether samples come first."""
        self.finite: Living[tuple[int, bool]] = Living()
        """Masks of what is finite, by the site that made them, and whether that has a gradient."""

        self._marks: dict[Look, tuple[Living[Any], ...]] = {
            look: tuple(getattr(self, name) for name in names) for look, names in _OF_MARKED.items()
        }

    def wants(self, look: Look, args: Sequence[Any]) -> bool:
        """Whether a look may have something to say of a call; this is asked at each."""
        marks = self._marks.get(look)
        if marks is None or any(marks):
            return True
        return look in _BY_INDEX and len(args) > 1 and type(args[1]) is torch.Tensor

    def marks_of(self, name: str) -> tuple[Living[Any], ...] | None:
        """Return the marks of which alone there is something to say where this function is called, if it is so."""
        look = LOOKS.get(name)
        if look is None:
            return ()
        return None if look in _BY_INDEX else self._marks.get(look)

    def note(
        self, look: Look, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any, frame: FrameType
    ) -> None:
        """Note a call that has a look."""
        user = innermost(frame)
        if user is None or is_jit_traced():
            return
        site = self._sites.of_call(user, name, frame)
        if look in _BY_INDEX or look not in _OF_MARKED:  # what is marked was made at a look
            count = self._calls[site] = self._calls.get(site, 0) + 1
            if (count > _FIRST_LOOKS and count & (count - 1)) or len(self._found) >= _MOST:
                return
        call = Call(self, site, args, kwargs, result)
        try:
            with torch.no_grad():
                said = look(call)
        except (AttributeError, IndexError, TypeError, ValueError, RuntimeError):
            return  # a form of the call that the look does not know
        if said is None:
            return
        kind, is_so, numbers = said
        known = self._found.setdefault(site, Peculiar(kind, site, name))
        if known.kind == kind:
            known.looks += 1
            known.times += is_so
            known.latest = is_so
            known.numbers = numbers if is_so else known.numbers
            known.other = call.other or known.other

    def use(self, made: int, at: int, kind: Kind) -> None:
        """Note that what a site made was used at another in a way that matters, if it is of this kind."""
        if (known := self._found.get(made)) is not None and known.kind == kind and not known.used:
            known.used, known.other = True, at

    def told(self) -> list[Told]:
        """Tell what was peculiar at some sites, in the order in which they were met."""
        found = []
        for each in self._found.values():
            line = self._sites.line(each.site) if each.times else None
            if line is not None:
                other = self._sites.line(each.other) if each.other else None
                found.append(Told(each, line, self._texts(each.site), other, self._texts(each.other)))
        return found

    def _texts(self, site: int) -> dict[int | str, str]:
        return {operand.position: operand.text for operand in self._sites.operands(site)}


def can_read(given: Any) -> bool:
    return isinstance(given, torch.Tensor) and is_readable(given) and 0 < given.numel() <= _MOST_VALUES


def bounds(values: torch.Tensor) -> tuple[float, float]:
    return float(values.min()), float(values.max())
