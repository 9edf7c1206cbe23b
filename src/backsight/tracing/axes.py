"""Where the axes of tensors come from: which axis of which is that of the samples, however large it is.

Each axis of a tensor that is met for the first time gets a number. What is computed has the axes of what it is computed
from (`kept_axes`), and two that an operation aligns are one from then on. An operation that aligns the last axes of a
tensor with those of one that has fewer is not taken at its word: it is noted, and told if all else says that the axis
was that of the samples. So sizes that are equal by chance tell nothing.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import FrameType
from typing import Any, NamedTuple

import torch

from backsight.tape import is_jit_traced
from backsight.tape.saved import is_readable
from backsight.tracing.axis_numbers import AxisNumbers
from backsight.tracing.kept_axes import ELEMENTWISE, KEEP_ALL, OF_ONE, OF_TWO, PLAIN, RULES, Given, Rule, applied
from backsight.tracing.kept_axes import Axes as Numbers
from backsight.tracing.orders import CARES, Orders
from backsight.tracing.program import innermost
from backsight.tracing.sites import Sites
from backsight.tracing.totals import CARES as TOTALED
from backsight.tracing.totals import Totals

_MOST_CALLS = 20_000
_MOST_NOTED = 256
_MOST_ROWS = 4096
_MADE_ALIKE = frozenset({"zeros", "ones", "full", "empty", "new_zeros", "new_ones", "new_full", "new_empty", "eye"})
"""What makes a tensor to be filled: what its axes are is not known."""

_RUNS = frozenset({"gru", "lstm", "rnn_tanh", "rnn_relu", "multi_head_attention_forward"})
_CELLS = ("LSTM", "GRU", "RNN")
_LAYERS = ("Transformer", "TransformerEncoderLayer", "TransformerDecoderLayer", "MultiheadAttention", *_CELLS)
_COMPARES = frozenset({"cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"}) | {
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
}
_TAKES_ONE = frozenset({"getitem", "select", "mean", "amax", "max"})
_TELLS = ELEMENTWISE | _COMPARES | _RUNS | {"stack"}
"""What tells something of the axes beside those of its result, as does what takes one entry of three dimensions."""

_FLATTENS = frozenset({"view", "reshape", "flatten"})

_COLLATES = ("torch/utils/data/_utils/collate.py", "torch\\utils\\data\\_utils\\collate.py")


@dataclass(frozen=True)
class Aligned:
    """A tensor whose only axis is that of the samples, and that was aligned with another axis of a larger one."""

    site: int
    op: str
    small: int
    axis: int
    shapes: tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class Along:
    """A layer that went along the first axis of what it was given, which is that of the samples."""

    site: int
    layer: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Flattened:
    """Two tensors of which one axis is made of two, in opposite orders, and that a loss compares entry by entry.

    `sites` are those where the scores and the target became flat, `shapes` what they were before.
    """

    site: int
    sites: tuple[int, int]
    shapes: tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True)
class Unpaired:
    """Rows of two DataLoaders, each of which draws in an order of its own, that a loss takes for pairs."""

    site: int
    loaders: tuple[weakref.ref[Any], weakref.ref[Any]]


class _Flat(NamedTuple):
    """Two axes that a view made one of, at which site, and the shape before."""

    outer: int
    inner: int
    site: int
    shape: tuple[int, ...]


class _Way(NamedTuple):
    """What to do with the calls of a function: its plain name, and its rule, if it has one.

    `carries`: a result of the same shape has the axes of the first argument; `joins`: with those of the second.
    `plans`: of how many tensors' positions the rule speaks, 0 where that is not all; `tells` and `takes`: see `_TELLS`.
    """

    name: str
    rule: Rule | None
    carries: bool
    joins: bool
    plans: int
    tells: bool
    takes: bool
    orders: bool
    totals: bool


@lru_cache(maxsize=1024)
def _way(name: str) -> _Way:
    """Return what to do with a function by its name: `add` is that of `add_` and `__add__`."""
    name = name if name.startswith(".") else name.strip("_")
    joins = name in ELEMENTWISE and name not in _COMPARES
    plans = 2 if name in OF_TWO else 1 if name in OF_ONE - _TELLS - _TAKES_ONE else 0
    return _Way(
        name,
        RULES.get(name),
        joins or name in KEEP_ALL,
        joins,
        plans,
        name in _TELLS,
        name in _TAKES_ONE,
        name in CARES,
        name in TOTALED,
    )


class Axes:
    """The numbers of the axes of every live tensor, and what was noted of them."""

    def __init__(self, sites: Sites) -> None:
        self._sites = sites
        self._numbers = AxisNumbers()
        self._calls = 0
        self._aligned: dict[tuple[int, int], tuple[Aligned, int, Numbers]] = {}
        self._along: dict[tuple[int, int, int], Along] = {}
        self._taken: set[tuple[int, int]] = set()
        self._compared: set[int] = set()
        self._drawn: dict[int, tuple[weakref.ref[Any], int]] = {}
        """The axis of the samples in what a shuffled DataLoader stacks: it is one, whatever else it is used for. By the
        id of what draws the batches."""
        self._unpaired: dict[int, Unpaired] = {}
        self._flat: dict[int, _Flat] = {}
        self._flattened: dict[int, tuple[Flattened, _Flat, _Flat]] = {}
        self.orders = Orders(self._numbers, sites)
        self.totals = Totals(self._numbers, sites)
        self.is_open = True
        """Whether calls are still looked at."""

    def note(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], result: Any, frame: FrameType) -> None:
        """Note the axes of what a call has returned; sizes are tensors where `torch.jit.trace` records."""
        if is_jit_traced():
            return
        self._calls += 1
        if self._calls >= _MOST_CALLS:
            self.is_open = False
            self._numbers.forget()
            return
        way = _way(name)
        plain = type(result) is torch.Tensor
        if way.name in _COMPARES:
            self._compare(args, frame)
        if (way.orders or self.orders.is_followed) and self.orders.note(way.name, args, result, frame):
            return
        if way.totals:
            self.totals.note(way.name, args, kwargs, result, frame)
        carries = plain and args and way.carries and (not way.joins or (len(args) == 2 and not kwargs))
        if carries and self._numbers.carry(args, result, way.joins):
            return
        if plain and way.name in _FLATTENS and args and self._flatten(way.name, args[0], result, frame):
            return
        arranges = plain and way.plans and len(args) >= way.plans and not kwargs
        if arranges and way.rule is not None and self._numbers.arrange(way.rule, args, result, way.plans == 2):
            return
        first = result[0] if type(result) in (tuple, list) and result else result
        if type(first) not in PLAIN:
            return
        if not (args and type(args[0]) in PLAIN) and not any(map(_is_tensor, (*args, *kwargs.values()))):
            if way.name in _MADE_ALIKE:
                self._numbers.put(first, (0,) * first.dim(), first.shape)
            return  # what is made of no other tensor is met for the first time when it is used
        shape = first.shape
        axes = applied(way.rule, Given(self._numbers, args, kwargs, shape))
        if way.tells or (way.takes and axes is not None and len(axes) == 2):
            self._look(way.name, args, kwargs, shape, axes, frame)
        for each in (first,) if plain or first is result else result:
            if type(each) in PLAIN and (not args or each is not args[0]):
                self._keep(each, axes if each is first or way.name not in _RUNS else None)

    def _flatten(self, name: str, tensor: Any, made: torch.Tensor, frame: FrameType) -> bool:
        """Give what joins its first two axes an axis made of them; return whether it is so."""
        if type(tensor) not in PLAIN or tensor.dim() != made.dim() + 1 or not made.dim() or tensor.dim() > 4:
            return False
        before, shape = tensor.shape, made.shape
        if shape[0] != before[0] * before[1] or shape[1:] != before[2:] or min(before[:2]) < 2:
            return False
        axes, user = self._numbers.of(tensor), innermost(frame)
        if not (axes[0] or axes[1]) or user is None or len(self._flat) >= _MOST_NOTED:
            return False
        joined = self._numbers.fresh()
        self._flat[joined] = _Flat(axes[0], axes[1], self._sites.of_call(user, name, frame), tuple(before))
        self._numbers.put(made, (joined, *axes[2:]), shape)
        return True

    def _compare(self, args: Sequence[Any], frame: FrameType) -> None:
        """Note what a loss compares entry by entry, before the axes of both are taken for one."""
        given = [each for each in args[:2] if type(each) in PLAIN]
        user = innermost(frame)
        if len(given) != 2 or user is None or not all(each.dim() for each in given):
            return
        if self.orders.is_followed:
            self.orders.compare(given[0], given[1], user, frame)
        if len(self._drawn) > 1 and given[1].dtype == torch.int64:
            self._pair(given[0], given[1], user, frame)
        one, other = (self._numbers.of(each)[0] for each in given)
        scores, target = self._flat.get(one), self._flat.get(other)
        if scores is not None and target is not None and len(self._flattened) < _MOST_NOTED:
            site = self._sites.of_call(user, "compare", frame)
            found = Flattened(site, (scores.site, target.site), (scores.shape, target.shape))
            self._flattened.setdefault(site, (found, scores, target))

    def _pair(self, scores: torch.Tensor, target: torch.Tensor, user: FrameType, frame: FrameType) -> None:
        """Note rows of one loader that are compared with classes, or columns, of another."""
        axes, drawn = self._numbers.of(scores), self._roots_drawn()
        beside = self._numbers.of(target)[0]
        if scores.dim() == 2 and scores.shape[0] == scores.shape[1] and _counts_up(target):
            beside = axes[1]
        one, other = drawn.get(self._numbers.root(axes[0])), drawn.get(self._numbers.root(beside))
        if one is not None and other is not None and one is not other:
            site = self._sites.of_call(user, "compare", frame)
            self._unpaired.setdefault(site, Unpaired(site, (one, other)))

    def unpaired(self) -> list[Unpaired]:
        """Return where the rows of two loaders were taken for pairs."""
        return list(self._unpaired.values())

    def flattened(self) -> list[Flattened]:
        """Return what was flattened in opposite orders: the outer axis of the one is the inner axis of the other."""
        root = self._numbers.root
        found = []
        for flattened, one, other in self._flattened.values():
            a, b, c, d = map(root, (one.outer, one.inner, other.outer, other.inner))
            if a != b and c != d and ((a and a == d and a != c) or (b and b == c and b != d)):
                found.append(flattened)
        return found

    def _keep(self, made: torch.Tensor, axes: Numbers | None) -> None:
        """Note the axes of a result, of which an axis of size 1 is none; `axes` may be those of another result."""
        shape = made.shape
        if axes is None or len(axes) != len(shape):
            axes = (0,) * len(shape)
        elif shape and min(shape) < 2:
            axes = tuple([at if n > 1 else 0 for at, n in zip(axes, shape, strict=True)])
        self._numbers.put(made, axes, shape)

    def _look(
        self,
        name: str,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        shape: tuple[int, ...],
        axes: Numbers | None,
        frame: FrameType,
    ) -> None:
        """Note what a call tells of the axes, beside those of its result."""
        given = [each for each in args[:2] if type(each) in PLAIN]
        if name in ELEMENTWISE and len(given) == 2 and given[0].dim() != given[1].dim():
            self._align(name, args, frame)
        elif name == "stack" and axes and frame.f_code.co_filename.endswith(_COLLATES):
            self._stacked(axes[0], _shuffling(frame))
        if name in _COMPARES and len(given) == 2 and given[0].dim() <= 2 and given[0].dim():
            self._compared.add(self._numbers.of(given[0])[0])
        elif name in _TAKES_ONE and axes is not None and given and given[0].dim() == 3 and len(axes) == 2:
            before = self._numbers.of(given[0])
            if before[0] == axes[0] and before[2] == axes[1]:
                self._taken.add((before[0], before[1]))
        elif name in _RUNS and given and given[0].dim() == 3 and (name[0] == "m" or _is_time_first(args)):
            self._run(given[0], frame)

    def _stacked(self, axis: int, drawing: Any) -> None:
        """Note the axis along which a loader that shuffles has stacked samples."""
        if drawing is None:
            return
        held = self._drawn.get(id(drawing))
        if held is None or held[0]() is not drawing:
            self._drawn[id(drawing)] = weakref.ref(drawing), axis
        else:
            self._numbers.unify(held[1], axis)

    def _roots_drawn(self) -> dict[int, weakref.ref[Any]]:
        return {self._numbers.root(axis): drawing for drawing, axis in self._drawn.values()}

    def _align(self, name: str, args: Sequence[Any], frame: FrameType) -> None:
        small = 0 if args[0].dim() < args[1].dim() else 1
        one, other = args[small], args[1 - small]
        at = other.dim() - one.dim()
        if not one.dim() or other.dim() < 3 or not 1 < one.shape[0] == other.shape[at] == other.shape[0]:
            return
        user = innermost(frame)
        if user is None or type(one) is torch.nn.Parameter or len(self._aligned) >= _MOST_NOTED:
            return
        axis, axes = self._numbers.of(one)[0], self._numbers.of(other)
        site = self._sites.of_call(user, name, frame)
        aligned = Aligned(site, name, small, at, (tuple(one.shape), tuple(other.shape)))
        self._aligned[site, axis] = aligned, axis, axes

    def _run(self, tensor: torch.Tensor, frame: FrameType) -> None:
        axes, user = self._numbers.of(tensor), innermost(frame)
        if axes[0] and axes[1] and user is not None and len(self._along) < _MOST_NOTED:
            site = self._sites.of_call(user, "along", frame)
            self._along[site, axes[0], axes[1]] = Along(site, _layer(frame, user), tuple(tensor.shape))

    def aligned(self) -> list[Aligned]:
        """Return what has one entry for each sample, and was aligned with another axis of a tensor of the samples."""
        root = self._numbers.root
        drawn = self._roots_drawn()
        found: dict[int, Aligned] = {}
        for aligned, axis, axes in self._aligned.values():
            here, there, first = root(axis), root(axes[aligned.axis]), root(axes[0])
            alone = len(aligned.shapes[0]) == 1 or here in drawn
            if here and there and here == first and here != there and alone:
                found.setdefault(aligned.site, aligned)
        return list(found.values())

    def along(self) -> list[Along]:
        """Return the layers that went along the samples.

        Samples are what a shuffled DataLoader has stacked; or what the loss compares one by one, after one entry was
        taken of the axis beside them. If some layer goes along that one, too, it is meant to be so.
        """
        root = self._numbers.root
        drawn = self._roots_drawn()
        compared = {root(each) for each in self._compared}
        taken = {(root(one), root(other)) for one, other in self._taken}
        pairs = {(root(one), root(other)) for _, one, other in self._along}
        found: dict[int, Along] = {}
        for (site, one, other), along in self._along.items():
            rows, beside = root(one), root(other)
            are_samples = rows in drawn or (rows in compared and (rows, beside) in taken)
            if are_samples and rows != beside and (beside, rows) not in pairs:
                found.setdefault(site, along)
        return list(found.values())


def _is_tensor(given: Any) -> bool:
    """Whether an argument is a tensor, or has some in it."""
    return type(given) in PLAIN or (isinstance(given, list | tuple) and any(type(each) in PLAIN for each in given))


def _is_time_first(args: Sequence[Any]) -> bool:
    """Whether a recurrent layer is given a whole batch, of which the first axis is the time."""
    packed = type(args[1]) in PLAIN and not args[1].is_floating_point()
    return not packed and args[-1] is False


def _counts_up(target: torch.Tensor) -> bool:
    """Whether each row has its own number for a class: those beside it are its negatives."""
    if not is_readable(target) or target.dim() != 1 or len(target) > _MOST_ROWS:
        return False
    return target.detach().tolist() == list(range(len(target)))


def _shuffling(frame: FrameType | None) -> Any:
    """Return what draws the batches of the DataLoader that is stacking samples, if it draws at random."""
    while frame is not None and frame.f_code.co_name != "_next_data":
        frame = frame.f_back
    loader = frame.f_locals.get("self") if frame is not None else None
    batches = getattr(loader, "__dict__", {}).get("_index_sampler")
    sampler = getattr(batches, "__dict__", {}).get("sampler", batches)
    return batches if "Random" in type(sampler).__name__ else None


def _layer(frame: FrameType | None, user: FrameType) -> str:
    """Return the class of PyTorch's layer that the program called, as far as its `batch_first` goes."""
    found = ""
    while frame is not None and frame is not user:
        name = type(frame.f_locals.get("self")).__name__ if frame.f_code.co_name == "forward" else ""
        found = name if name in _LAYERS else found
        frame = frame.f_back
    return found
