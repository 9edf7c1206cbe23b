"""Calls that do something else than the program means, as the values show that they are given: one look a function.

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
from backsight.tape.ops import op_name
from backsight.tape.saved import is_readable
from backsight.tracing.facts import Line
from backsight.tracing.program import innermost
from backsight.tracing.sites import Sites

Kind = Literal[
    "signs", "range", "blank", "logs", "mask", "quotient", "truncated", "padding", "hidden", "drawn", "same", "scales"
]

_MOST = 512
_MOST_VALUES = 1 << 20
_FIRST_LOOKS = 4
_FEWEST = 8
"""Rows, or values, below which they may be alike by chance."""

_MANY = 256
"""Entries of which a mean is so much smaller than a sum that it does not count."""

_COLLAPSED = 0.05
"""A divergence of a sample so small that its code tells next to nothing of it."""


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
        return found.detach() if _can_read(found) else None


Said = tuple[Kind, bool, tuple[float, ...]]
"""Of which kind, whether it is peculiar this time, and numbers that tell of it."""

Look = Callable[[Call], Said | None]
LOOKS: dict[str, Look] = {}
_OF_MARKED: dict[Look, tuple[str, ...]] = {}
"""Looks that have something to say of marked tensors, or of an index, alone, and which marks these are."""


def _looks(*names: str, of: tuple[str, ...] = ()) -> Callable[[Look], Look]:
    def enter(look: Look) -> Look:
        LOOKS.update(dict.fromkeys(names, look))
        if of:
            _OF_MARKED[look] = of
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

    def wants(self, look: Look, args: Sequence[Any]) -> bool:
        """Whether a look may have something to say of a call; this is asked at each."""
        marks = _OF_MARKED.get(look)
        if marks is None:
            return True
        if any(map(len, map(self.__dict__.__getitem__, marks))):
            return True
        return look is _taken and len(args) > 1 and type(args[1]) is torch.Tensor

    def note(
        self, look: Look, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any, frame: FrameType
    ) -> None:
        """Note a call that has a look."""
        user = innermost(frame)
        if user is None or is_jit_traced():
            return
        site = self._sites.of_call(user, name, frame)
        if look is _taken or look not in _OF_MARKED:  # what is marked was made at a look
            count = self._calls[site] = self._calls.get(site, 0) + 1
            if (count > _FIRST_LOOKS and count & (count - 1)) or len(self._found) >= _MOST:
                return
        call = Call(self, site, args, kwargs, result)
        with torch.no_grad():
            said = look(call)
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


def _can_read(given: Any) -> bool:
    return isinstance(given, torch.Tensor) and is_readable(given) and 0 < given.numel() <= _MOST_VALUES


def _bounds(values: torch.Tensor) -> tuple[float, float]:
    return float(values.min()), float(values.max())


@_looks("cosine_embedding_loss", "margin_ranking_loss")
def _signs_of_pairs(call: Call) -> Said | None:
    return _signs(call.values(2, "target"))


@_looks("hinge_embedding_loss", "soft_margin_loss")
def _signs_of_one(call: Call) -> Said | None:
    return _signs(call.values(1, "target"))


def _signs(target: torch.Tensor | None) -> Said | None:
    """Labels of a loss that takes 1 and -1 are 0 and 1: zeros, and nothing below."""
    if target is None:
        return None
    low, _ = _bounds(target)
    if low > 0:
        return None
    zeros = int((target == 0).sum())
    return "signs", low == 0 and bool(((target == 0) | (target == 1)).all()), (zeros, target.numel())


@_looks("binary_cross_entropy_with_logits")
def _probabilities(call: Call) -> Said | None:
    """Targets that are no probabilities: then the loss has no minimum."""
    _averaged(call)
    target = call.values(1, "target")
    if target is None or target.is_complex():
        return None
    low, high = _bounds(target)
    is_so = low < -0.25 or high > 1.25
    return "range", is_so, (low, high, float(((target < 0) | (target > 1)).double().mean()))


@_looks("ctc_loss")
def _blanks(call: Call) -> Said | None:
    """Targets that contain the blank, which stands for no symbol."""
    targets, lengths, blank = call.values(1, "targets"), call.given(3, "target_lengths"), call.given(4, "blank", 0)
    if targets is None or type(blank) is not int:
        return None
    counted = targets
    if targets.dim() == 2:
        lengths = lengths.tolist() if _can_read(lengths) else lengths
        if type(lengths) not in (list, tuple) or len(lengths) != len(targets):
            return None
        counted = torch.cat([row[: int(n)] for row, n in zip(targets, lengths, strict=True)])
    blanks = int((counted == blank).sum())
    return "blank", blanks > 0, (blanks, counted.numel(), blank)


@_looks("kl_div")
def _logarithms(call: Call) -> Said | None:
    """A target that has probabilities where their logarithms are expected: these are never above 0."""
    target = call.values(1, "target")
    if target is None or call.kwargs.get("log_target") is not True:
        return None
    low, high = _bounds(target)
    return "logs", low >= 0 and high > 0.01, (low, high)


@_looks("__getitem__", "index_select", of=("padded",))
def _taken(call: Call) -> Said | None:
    """Rows that are chosen by a mask of whole numbers; and the last entry of what was padded."""
    tensor = call.args[0] if call.args else None
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return None
    padded = call.book.padded.of(tensor)
    index = call.given(1)
    if call.kwargs or len(call.args) == 3:
        at, index = call.given(1, "dim"), call.given(2, "index")
        if padded is not None and isinstance(call.result, torch.Tensor) and at == (0 if padded[2] else 1):
            site, lengths, first = padded
            order = index.tolist() if _can_read(index) else []
            if len(order) == len(lengths):
                kept = tuple(lengths[k] for k in order)
                call.book.padded.put(id(call.result), call.result, (site, kept, first))
        if at != 0:
            return None
    if padded is not None and type(index) in (tuple, int):
        return _last_of_padded(call, index, *padded)
    made = call.book.finite.of(index) if index is not None else None
    if made is not None and tensor.grad_fn is not None:
        call.other = made[0]
        return "hidden", True, (made[1],)
    return _by_mask(tensor, index)


def _last_of_padded(call: Call, index: Any, site: int, lengths: tuple[int, ...], first: bool) -> Said | None:
    parts = index if type(index) is tuple else (index,)
    if first and (type(parts[0]) is not slice or parts[0] != slice(None)):
        return None
    taken = parts[1:2] if first else parts[:1]
    if not taken or type(taken[0]) is not int or taken[0] != -1 or not call.result.requires_grad:
        return None
    call.other = site
    short = sum(n < max(lengths) for n in lengths)
    return "padding", short > 0, (short, len(lengths), max(lengths), first)


def _by_mask(tensor: torch.Tensor, index: Any) -> Said | None:
    if type(index) is not torch.Tensor or index.dtype not in (torch.int64, torch.int32) or not _can_read(index):
        return None
    if index.numel() < _FEWEST or tensor.shape[: index.dim()] != index.shape:
        return None
    is_so = _bounds(index) == (0, 1)
    return "mask", is_so, (index.numel(), int((index == 1).sum()))


@_looks("__floordiv__", "floor_divide")
def _quotient(call: Call) -> Said | None:
    """Whole numbers that are divided by one above all of them: the result is 0 throughout."""
    given, by = call.values(0, "input"), call.given(1, "other")
    by = by.item() if _can_read(by) and by.numel() == 1 else by
    if given is None or type(by) is not int or given.is_floating_point() or given.numel() < _FEWEST:
        return None
    low, high = _bounds(given)
    is_so = low >= 0 and by > high and low != high
    if is_so:
        call.book.zeros.put(id(call.result), call.result, call.site)
    return "quotient", is_so, (by, high)


@_looks("long", "int", "to", "type")
def _truncated(call: Call) -> Said | None:
    """Fractions below 1 that are made whole numbers: all of them become 0."""
    given, made = call.values(0), call.result
    if not isinstance(made, torch.Tensor) or made.dtype not in (torch.int64, torch.int32):
        _as_fraction(call)
        return None
    if given is None or not given.is_floating_point() or given.numel() < _FEWEST:
        return None
    low, high = _bounds(given)
    is_so = low > -1 and high < 1 and low != high and len(given.unique()) >= _FEWEST
    if is_so:
        call.book.zeros.put(id(call.result), call.result, call.site)
    return "truncated", is_so, (low, high)


@_looks("unsqueeze", "view", "reshape", "expand", "squeeze", of=("zeros",))
def _same_values(call: Call) -> None:
    if call.args and (made := call.book.zeros.of(call.args[0])) is not None and call.result is not None:
        call.book.zeros.put(id(call.result), call.result, made)


@_looks("float", "double", "half", "__truediv__", "div", of=("zeros",))
def _as_fraction(call: Call) -> None:
    """A quotient that is computed with as a fraction."""
    if isinstance(call.result, torch.Tensor) and call.result.is_floating_point():
        _used(call, "quotient")


@_looks("embedding")
def _looked_up(call: Call) -> None:
    """Tokens, of which some are padding."""
    _as_class(call)
    tokens, pad = call.values(0, "input"), call.given(2, "padding_idx")
    if tokens is not None and type(pad) is int and pad >= 0 and tokens.dim() == 2 and len(call.book.pads) < _FEWEST:
        call.book.pads[tuple(tokens.shape)] = tokens == pad


@_looks("multi_head_attention_forward")
def _masked(call: Call) -> Said | None:
    """A mask that hides the tokens and not the padding."""
    mask = call.kwargs.get("key_padding_mask")
    pads = call.book.pads.pop(tuple(mask.shape), None) if isinstance(mask, torch.Tensor) and _can_read(mask) else None
    if mask is None or pads is None or pads.device != mask.device or not pads.any() or pads.all():
        return None
    hides = mask if mask.dtype == torch.bool else mask == -torch.inf
    return "inverted", torch.equal(hides, ~pads), (int(pads.sum()), pads.numel())


@_looks("one_hot", "cross_entropy", "nll_loss", of=("zeros",))
def _as_class(call: Call) -> None:
    """What was truncated, that is looked up as a class."""
    _used(call, "truncated")


def _used(call: Call, kind: Kind) -> None:
    for each in call.args[:2]:
        made = call.book.zeros.of(each) if isinstance(each, torch.Tensor) else None
        if made is not None:
            call.book.use(made, call.site, kind)


@_looks("_pad_packed_sequence")
def _padded(call: Call) -> None:
    output, lengths = call.result if type(call.result) is tuple and len(call.result) == 2 else (None, None)
    if isinstance(output, torch.Tensor) and _can_read(lengths):
        call.book.padded.put(id(output), output, (call.site, tuple(lengths.tolist()), call.args[2] is True))


@_looks("isfinite", "isnan")
def _finite(call: Call) -> None:
    if isinstance(call.result, torch.Tensor) and call.args:
        call.book.finite.put(id(call.result), call.result, (call.site, bool(call.args[0].requires_grad)))


@_looks("__invert__", "logical_not", "bitwise_not")
def _inverted(call: Call) -> None:
    made = call.book.finite.of(call.args[0]) if call.args else None
    if made is not None and isinstance(call.result, torch.Tensor):
        call.book.finite.put(id(call.result), call.result, made)


@_looks("where", "masked_fill", "nan_to_num", "nansum", "nanmean")
def _hidden(call: Call) -> Said | None:
    """What is not finite is hidden after it was computed with: its gradient is not."""
    if not isinstance(call.result, torch.Tensor) or not call.result.requires_grad or not call.args:
        return None
    masks = [call.book.finite.of(each) for each in (*call.args[:2], call.kwargs.get("mask"))]
    call.other, computed = next((made for made in masks if made is not None), (0, False))
    of_itself = call.args[0] if not call.other and len(call.args) == 1 else None
    computed |= isinstance(of_itself, torch.Tensor) and of_itself.requires_grad
    return ("hidden", True, (computed,)) if call.other or computed else None


@_looks("randint")
def _drawn(call: Call) -> Said | None:
    """A random number of which there is one only."""
    numbers = [each for each in call.args[:2] if type(each) is int]
    low, high = (0, numbers[0]) if len(numbers) == 1 else (numbers or [0, 0])[:2]
    low, high = call.kwargs.get("low", low), call.kwargs.get("high", high)
    return ("drawn", high - low == 1, (low, high)) if type(low) is type(high) is int and high > low else None


@_looks("triplet_margin_loss", "triplet_margin_with_distance_loss")
def _same(call: Call) -> Said | None:
    """A triplet two of whose members are one tensor."""
    three = [call.given(at, name) for at, name in enumerate(("anchor", "positive", "negative"))]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        a, b = three[one], three[other]
        if a is b or (_can_read(a) and _can_read(b) and a.shape == b.shape and a.numel() > 1 and torch.equal(a, b)):
            return "same", True, (one, other)
    return "same", False, ()


@_looks("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy")
def _compared(call: Call) -> Said | None:
    """A prediction of N entries that is compared with a target of N×N."""
    _averaged(call)
    given, target = call.given(0, "input"), call.given(1, "target")
    if not isinstance(given, torch.Tensor) or not isinstance(target, torch.Tensor) or target.requires_grad:
        return None
    rows = given.numel()
    is_so = given.dim() == 1 and rows > 1 and target.shape == (rows, rows)
    return ("outer", True, (rows,)) if is_so else None


def _averaged(call: Call) -> None:
    """A loss that is the mean over all entries."""
    given, target = call.given(0, "input"), call.given(1, "target")
    if call.kwargs.get("reduction", "mean") != "mean" or not all(isinstance(t, torch.Tensor) for t in (given, target)):
        return
    if isinstance(call.result, torch.Tensor) and call.result.requires_grad and given.dim() > 1:
        call.book.averages.put(id(call.result), call.result, (call.site, given.numel(), given.shape[0]))


@_looks("sum")
def _summed(call: Call) -> None:
    """A sum over all entries of what has the form of a Gaussian divergence."""
    given, made = call.args[0] if call.args else None, call.result
    if len(call.args) != 1 or call.kwargs or not isinstance(given, torch.Tensor) or given.dim() < 2:
        return
    if isinstance(made, torch.Tensor) and made.requires_grad and _is_divergence(given):
        call.book.divergences.put(id(made), made, (call.site, given.shape[0]))


@_looks("mul", "__mul__", "__rmul__", of=("zeros", "divergences"))
def _multiplied(call: Call) -> None:
    """A quotient that is computed with, and a divergence with no factor but a half."""
    _as_fraction(call)
    tensor = next((each for each in call.args[:2] if isinstance(each, torch.Tensor)), None)
    known = call.book.divergences.of(tensor)
    if known is not None and any(type(each) is float and abs(each) == 0.5 for each in call.args[:2]):
        call.book.divergences.put(id(call.result), call.result, known)


def _is_divergence(tensor: torch.Tensor) -> bool:
    """Whether a tensor adds up an exponential, a square, and what stands in the exponential."""
    names: list[str] = []
    nodes = [tensor.grad_fn]
    for node in nodes:  # grows as we go
        name = op_name(type(node).__name__)
        names.append(name)
        if name in ("Add", "Sub", "Rsub", "Mul", "Neg", "Div"):
            nodes += [each for each, _ in node.next_functions if each is not None]
        if len(nodes) > _FEWEST * 2:
            return False
    return "Exp" in names and ("Pow" in names or "Square" in names) and len(names) > 4


@_looks("add", "__add__", "__radd__", of=("divergences",))
def _of_scales(call: Call) -> Said | None:
    """A mean over all entries, and a sum over all samples, that are added: the sum alone counts."""
    given = [each for each in call.args[:2] if isinstance(each, torch.Tensor)]
    if len(given) != 2 or given[0].dim() or given[1].dim():
        return None
    for one, other in (given, given[::-1]):
        mean, divergence = call.book.averages.of(one), call.book.divergences.of(other)
        if mean is not None and divergence is not None and mean[2] == divergence[1] and mean[1] >= _MANY:
            call.other = divergence[0]
            each = float(other) / divergence[1]
            return "scales", each < _COLLAPSED, (mean[1], divergence[1], each)
    return None


@_looks("stack")
def _stacked(call: Call) -> Said | None:
    """Parameters of several modules that become one."""
    given = call.given(0, "tensors")
    if type(given) not in (list, tuple) or len(given) < 2 or any(type(t) is not torch.nn.Parameter for t in given):
        return None
    return "stacked", True, (len(given),)
