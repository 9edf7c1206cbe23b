"""What met at a call of the program, noted at the first times that it ran: shapes that broadcast, and cuts on the way.

A call that is made in every step is looked at twice, so that this costs nothing over a training.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from backsight.tape import Living, grad_fn, is_jit_traced, is_mended, looks_into, sequence_number
from backsight.tape.ops import op_name
from backsight.tape.saved import is_readable, memory
from backsight.tracing.facts import Reach
from backsight.tracing.flow import Cut, Flow, tensors

_MOST = 4096
_MOST_WALKED = 256
_MOST_VISITS = 8
_MOST_CALLS = 8
"""Calls at one site that are noted: those of the layers that one line runs, one after the other."""

_LAYERS = frozenset({"Addmm", "Mm"})

_ELEMENTWISE = frozenset(
    {"sub", "__sub__", "__rsub__", "rsub", "subtract", "add", "__add__", "__radd__", "mul", "__mul__", "__rmul__"}
    | {"multiply", "div", "__truediv__", "__rtruediv__", "divide"}
    | {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"}
)
_DISTANCES = frozenset({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "sub", "__sub__", "subtract"})
_COMPARED = frozenset({"sub", "__sub__", "subtract", "div", "__truediv__", "divide"})
_OF_CLASSES = frozenset({"cross_entropy", "nll_loss"})
_MOST_CLASSES = 1 << 13
_BOUNDS = {
    "Relu": (0.0, float("inf")),
    "Softplus": (0.0, float("inf")),
    "Exp": (0.0, float("inf")),
    "Sigmoid": (0.0, 1.0),
    "Softmax": (0.0, 1.0),
    "Tanh": (-1.0, 1.0),
}
"""Between what the results of an operation lie."""
_SAME_VALUES = frozenset({"View", "UnsafeView", "ReshapeAlias", "Squeeze", "Unsqueeze", "Transpose", "Permute", "T"})
_WITHOUT_GRADIENTS = frozenset({"no_grad", "inference"})
_SUMS = frozenset(("add", "__add__", "__radd__", "__iadd__", "add_", "sub", "__sub__", "__rsub__", "__isub__"))


@dataclass(frozen=True, slots=True)
class Meeting:
    """Two tensors of one call. `column` and `row` are the positions of an N×1 and of an N, whose result is N×N.

    `cuts` are those behind what requires no gradient although another operand does; `term` is the position of a number
    that is added and has such cuts. `reach` tells of a prediction and its target that the one is the result of a
    bounded operation, and which share of the other lies outside of its bounds. `same` tells that both require a
    gradient and have the same values, `repeats` the same of two of which one was computed without gradients; `target`
    are the classes that the second has. `made` is the site at which a square that is met came of
    an N×1 and an N, else 0, and the position of the N×1 there.
    """

    site: int
    op: str
    shapes: tuple[tuple[int, ...], ...]
    column: int = -1
    row: int = -1
    cuts: tuple[Cut, ...] = ()
    term: int = -1
    reach: Reach | None = None
    same: bool = False
    target: tuple[int, ...] = ()
    repeats: bool = False
    made: tuple[int, int] = (0, 0)


class Meetings:
    """The meetings by site, and which leaves the gradient would have gone to at each cut.

    `passes` returns how many backwards there were.
    """

    def __init__(self, flow: Flow, passes: Callable[[], int] = lambda: 0) -> None:
        self._flow, self._passes = flow, passes
        self._seen: dict[int, weakref.ref[torch.Tensor] | None] = {}
        self._at: dict[int, int] = {}
        self._pending: dict[int, Meeting] = {}
        self.found: dict[int, Meeting] = {}
        self.latest: dict[int, int] = {}
        self.ended: dict[int, tuple[weakref.ref[torch.Tensor], ...]] = {}
        self.parts: dict[int, list[tuple[tuple[weakref.ref[torch.Tensor], ...], int]]] = {}
        """The same for each time by itself, with the number of the next node then."""
        self._squares: Living[tuple[int, int]] = Living()
        """What of a network, and without a gradient, became N×N as an N×1 and an N met, by the site of that and the
        position of the N×1."""
        self._columns: Living[bool] = Living()
        """What of a network, and without a gradient, was made N×1 of an N."""
        self._visits: dict[int, int] = {}
        self._calls: dict[int, int] = {}

    def again(self) -> None:
        """Look at each call anew: after a pause the program may do something else."""
        self._seen.clear()
        self._at.clear()
        self._calls.clear()
        self._pending.clear()
        self.found.clear()

    def is_new(self, site: int) -> bool:
        """Whether there is something to note of the call at a site."""
        self._calls[site] = self._calls.get(site, 0) + 1
        return not self.is_settled(site)

    def is_settled(self, site: int) -> bool:
        """Whether there will be nothing to note any more of the calls at a site that was met."""
        return self._calls.get(site, 0) > _MOST_CALLS and self._seen.get(site) is None

    def note(self, site: int, op: str, args: Sequence[Any], kwargs: Any) -> None:
        """Note what meets at a site."""
        if len(self._seen) >= _MOST:
            return
        given = list(tensors(args, kwargs))
        if site in self._seen and self._seen[site] is None:
            self._other_layer(site, op, given)
            return
        if site in self._seen:
            known, met = self._seen[site], self.found.get(site)
            same = known is not None and met is not None and any(known() is each for _, each in given)
            same |= site in self._pending and known is not None and any(known() is each for _, each in given)
            if same and self._at.get(site) == self._passes():
                # Several predictions of one step may have one target, or one grid: the next step tells which.
                if site in self.found:
                    self._pending[site] = self.found.pop(site)
                return
            pending = self._pending.pop(site, None)
            if pending is not None and not same:
                self.found[site] = pending
            elif same and pending is None:
                del self.found[site]  # one and the same in each step: levels, bins, a grid
            self._seen[site] = None
            return
        self._seen[site] = None
        cuts = self._behind(given)
        column, row = _outer(given[:2]) if op in _ELEMENTWISE and len(given) >= 2 else (-1, -1)
        column, row = self._against_square(given) if column < 0 and op in _ELEMENTWISE else (column, row)
        made = self._squares.of(given[row][1]) if column >= 0 else None
        if column >= 0 and given[row][1].dim() == 2 and not cuts:
            column, row = -1, -1  # a matrix that no network has computed may be meant
        if column >= 0:
            self._seen[site], self._at[site] = weakref.ref(given[row][1]), self._passes()
        term = self._term(given[:2], args) if op in _SUMS else -1
        reach = _reach(given[:2]) if op in _DISTANCES else None
        same = op in _COMPARED and _are_equal(given[:2])
        target = _classes(given[1][1]) if op in _OF_CLASSES and len(given) > 1 else ()
        repeats = op in _COMPARED and any(cut.by in _WITHOUT_GRADIENTS for cut in cuts) and _repeats(given[:2])
        if cuts or column >= 0 or term >= 0 or reach is not None or same or target:
            shapes = tuple(tuple(each.shape) for _, each in given[:2])
            self.found[site] = Meeting(
                site, op, shapes, column, row, cuts, term, reach, same, target, repeats, made or (0, 0)
            )

    def squared(
        self, op: str, given: Sequence[tuple[int | str, torch.Tensor]], result: torch.Tensor, site: Callable[[], int]
    ) -> None:
        """Note what of a network becomes a square without a gradient, or is computed of one."""
        if result.dim() != 2 or result.requires_grad or is_jit_traced():
            return
        if result.shape[1] == 1 and any(each.shape == (len(result),) or self._is_made_so(each) for _, each in given):
            self._columns.put(id(result), result, True)
        if result.shape[0] != result.shape[1]:
            return
        alike = (self._squares.of(each) for _, each in given if each.shape == result.shape) if self._squares else ()
        made = next(filter(None, alike), None)
        column = _outer(given)[0] if made is None and op in _ELEMENTWISE and len(given) == 2 else -1
        if column >= 0 and self._is_of_a_network(given[column][1]):
            made = site(), column
        if made is not None:
            self._squares.put(id(result), result, made)

    def _is_made_so(self, tensor: torch.Tensor) -> bool:
        """Whether an N was made an N×1, as for all pairs."""
        if tensor.requires_grad and not is_mended(tensor) and tensor.shape[1:] == (1,):
            return type(grad_fn(tensor)).__name__.startswith("Unsqueeze")
        return bool(self._columns) and self._columns.of(tensor) is not None

    def _is_of_a_network(self, column: torch.Tensor) -> bool:
        return not self._is_made_so(column) and (column.requires_grad or bool(self._flow.cuts(column)))

    def _against_square(self, given: Sequence[tuple[int | str, torch.Tensor]]) -> tuple[int, int]:
        """Return which of two tensors is N, with a gradient, and which such a square of N×N."""
        for flat, square in ((0, 1), (1, 0)) if len(given) >= 2 and self._squares else ():
            one, other = given[flat][1], given[square][1]
            if one.requires_grad and one.dim() == 1 and other.shape == (len(one), len(one)) and self._squares.of(other):
                return flat, square
        return -1, -1

    def _behind(self, given: Sequence[tuple[int | str, torch.Tensor]]) -> tuple[Cut, ...]:
        every = (cut for _, each in given if not each.requires_grad for cut in self._flow.cuts(each))
        return tuple(dict.fromkeys(every))

    def _other_layer(self, site: int, op: str, given: Sequence[tuple[int | str, torch.Tensor]]) -> None:
        """Note the cuts that another call at a site meets: `net(x)` is the line of all of its layers."""
        cuts, met = self._behind(given), self.found.get(site)
        if cuts and met is None:
            self.found[site] = Meeting(site, op, tuple(tuple(each.shape) for _, each in given[:2]), cuts=cuts)
        elif met is not None and not set(cuts) <= set(met.cuts):
            self.found[site] = replace(met, cuts=tuple(dict.fromkeys((*met.cuts, *cuts))))

    def is_open(self, site: int) -> bool:
        """Whether it is still noted which leaves lie behind a cut: a helper cuts one layer after the other."""
        return self._visits.get(site, 0) < _MOST_VISITS and len(self._visits) < _MOST

    def cut(self, site: int, given: Iterable[torch.Tensor]) -> None:
        """Note to which leaves the gradient would have gone on, where it is cut off: behind what it had cut before."""
        self._visits[site] = self._visits.get(site, 0) + 1
        leaves = dict.fromkeys(self.ended.get(site, ()))
        part: dict[weakref.ref[torch.Tensor], None] = {}
        for each in given:
            if each.requires_grad:
                part |= dict.fromkeys(map(weakref.ref, _leaves([each])))
                continue
            for cut in self._flow.cuts(each):
                leaves |= dict.fromkeys(self.ended.get(cut.site, ()))
                part |= dict.fromkeys(ref for last, _ in self.parts.get(cut.site, ())[-1:] for ref in last)
        self.ended[site] = tuple(leaves | part)
        self.parts.setdefault(site, []).append((tuple(part), self.latest.get(site, 0)))

    def _term(self, given: Sequence[tuple[int | str, torch.Tensor]], args: Sequence[Any]) -> int:
        if len(given) != 2 or any(each.numel() != 1 for _, each in given) or any(each.dim() for _, each in given):
            return -1
        return next((at for at, (_, each) in enumerate(given) if not each.requires_grad and self._flow.cuts(each)), -1)


def _outer(given: Sequence[tuple[int | str, torch.Tensor]]) -> tuple[int, int]:
    """Return which of two tensors is N×1 and which N, where neither was made so for the purpose.

    A target of N×N, against a prediction of N×1, is what such a meeting has made where there were no gradients.
    """
    for column, row in ((0, 1), (1, 0)):
        tall, flat = given[column][1], given[row][1]
        if tall.dim() != 2 or tall.shape[1] != 1 or not 1 < tall.shape[0] == flat.shape[:1].numel():
            continue
        made = grad_fn(tall) if tall.requires_grad and not is_mended(tall) else None
        is_target = flat.dim() == 2 and flat.shape[0] == flat.shape[1] and not flat.requires_grad
        if flat.dim() == 1 or (is_target and op_name(type(made).__name__) in _LAYERS):
            base = looks_into(tall)
            made_so = (base is not None and base.dim() < 2) or (
                not is_mended(tall) and type(grad_fn(tall)).__name__.startswith("Unsqueeze")
            )
            return (-1, -1) if made_so or isinstance(flat, torch.nn.Parameter) else (column, row)
    return -1, -1


def _are_equal(given: Sequence[tuple[int | str, torch.Tensor]]) -> bool:
    """Whether two tensors that require a gradient are two, and have the same values."""
    if len(given) != 2 or not all(each.requires_grad and is_readable(each) for _, each in given):
        return False
    (_, one), (_, other) = given
    return one is not other and one.shape == other.shape and torch.equal(one.detach(), other.detach())


def _repeats(given: Sequence[tuple[int | str, torch.Tensor]]) -> bool:
    """Whether two tensors of which one alone requires a gradient have the same values, each in its own memory."""
    if len(given) != 2 or not all(is_readable(each) for _, each in given):
        return False
    (_, one), (_, other) = given
    if one.requires_grad == other.requires_grad or one.shape != other.shape or memory(one)[0] == memory(other)[0]:
        return False
    return torch.equal(one.detach(), other.detach())


def _classes(target: torch.Tensor) -> tuple[int, ...]:
    """Return the classes of a target, of which there are not too many; nothing of what has none, as probabilities."""
    if target.dtype != torch.int64 or not is_readable(target) or not 1 < target.numel() <= _MOST_CLASSES:
        return ()
    return tuple(target.detach().reshape(-1).tolist())


def _reach(given: Sequence[tuple[int | str, torch.Tensor]]) -> Reach | None:
    """Say of a prediction and its target how much of the target the prediction can never be; None where it may be all.

    A hundredth of the bounds is no matter, and neither is a twentieth of the targets.
    """
    if len(given) != 2 or given[1][1].requires_grad or not given[1][1].is_floating_point():
        return None
    (_, prediction), (_, target) = given
    node = grad_fn(prediction) if not is_mended(prediction) else None
    while node is not None and op_name(type(node).__name__) in _SAME_VALUES:
        node = node.next_functions[0][0]
    op = op_name(type(node).__name__)
    low, high = _BOUNDS.get(op, (0.0, 0.0))
    if low == high or prediction.shape != target.shape or not is_readable(target) or not target.numel():
        return None
    below = float((target < low - 0.01).double().mean())
    above = float((target > high + 0.01).double().mean())
    number = sequence_number(node)
    return Reach(op.lower(), low, high, below, above, number) if below + above > 0.05 else None


def _leaves(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return the leaves behind some tensors, as far as they are near."""
    # A view that was made without gradients is gone before its base, a parameter or a result, is asked for.
    bases = ((each, looks_into(each) if grad_fn(each) is None else None) for each in tensors if not is_mended(each))
    known = [(held, grad_fn(held)) for held in (each if base is None else base for each, base in bases)]
    found = [each for each, node in known if node is None]
    nodes: list[Any] = list(dict.fromkeys(node for _, node in known if node is not None))
    seen = set(nodes)
    for node in nodes:  # grows as we go
        if type(node).__name__ == "AccumulateGrad":
            found.append(node.variable)
        for producer, _ in node.next_functions if len(nodes) < _MOST_WALKED else ():
            if producer is not None and producer not in seen:
                seen.add(producer)
                nodes.append(producer)
    return found
