"""What met at a call of the program, noted at the first times that it ran: shapes that broadcast, and cuts on the way.

A call that is made in every step is looked at twice, so that this costs nothing over a training.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from backsight.tracing.flow import Cut, Flow, tensors

_MOST = 4096
_MOST_WALKED = 256
_ELEMENTWISE = frozenset(
    {"sub", "__sub__", "__rsub__", "rsub", "subtract", "add", "__add__", "__radd__", "mul", "__mul__", "__rmul__"}
    | {"multiply", "div", "__truediv__", "__rtruediv__", "divide"}
    | {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"}
)
_SUMS = frozenset(("add", "__add__", "__radd__", "__iadd__", "add_", "sub", "__sub__", "__rsub__", "__isub__"))


@dataclass(frozen=True, slots=True)
class Meeting:
    """Two tensors of one call. `column` and `row` are the positions of an N×1 and of an N, whose result is N×N.

    `cuts` are those behind what requires no gradient although another operand does; `term` is the position of a number
    that is added and has such cuts.
    """

    site: int
    op: str
    shapes: tuple[tuple[int, ...], ...]
    column: int = -1
    row: int = -1
    cuts: tuple[Cut, ...] = ()
    term: int = -1


class Meetings:
    """The meetings by site, and which leaves the gradient would have gone to at each cut."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._seen: dict[int, weakref.ref[torch.Tensor] | None] = {}
        self.found: dict[int, Meeting] = {}
        self.latest: dict[int, int] = {}
        self.ended: dict[int, tuple[weakref.ref[torch.Tensor], ...]] = {}

    def again(self) -> None:
        """Look at each call anew: after a pause the program may do something else."""
        self._seen.clear()
        self.found.clear()

    def is_new(self, site: int) -> bool:
        """Whether there is something to note of the call at a site."""
        return site not in self._seen or self._seen[site] is not None

    def note(self, site: int, op: str, args: Sequence[Any], kwargs: Any) -> None:
        """Note what meets at a site."""
        if len(self._seen) >= _MOST:
            return
        given = list(tensors(args, kwargs))
        if site in self._seen:
            known, met = self._seen[site], self.found.get(site)
            same = known is not None and met is not None and any(known() is each for _, each in given)
            if same:
                del self.found[site]  # one and the same in each step: levels, bins, a grid
            self._seen[site] = None
            return
        self._seen[site] = None
        cuts = tuple(dict.fromkeys(cut for _, each in given if not each.requires_grad for cut in self._flow.cuts(each)))
        column, row = _outer(given[:2]) if op in _ELEMENTWISE and len(given) >= 2 else (-1, -1)
        if column >= 0:
            self._seen[site] = weakref.ref(given[row][1])
        term = self._term(given[:2], args) if op in _SUMS else -1
        if cuts or column >= 0 or term >= 0:
            shapes = tuple(tuple(each.shape) for _, each in given[:2])
            self.found[site] = Meeting(site, op, shapes, column, row, cuts, term)

    def cut(self, site: int, number: int, given: Iterable[torch.Tensor]) -> None:
        """Note to which leaves the gradient would have gone on, where it is cut off. `number`: of the next node."""
        self.latest[site] = number
        if site in self.ended or len(self.ended) >= _MOST:
            return
        self.ended[site] = tuple(map(weakref.ref, _leaves([each for each in given if each.requires_grad])))

    def _term(self, given: Sequence[tuple[int | str, torch.Tensor]], args: Sequence[Any]) -> int:
        if len(given) != 2 or any(each.numel() != 1 for _, each in given) or any(each.dim() for _, each in given):
            return -1
        return next((at for at, (_, each) in enumerate(given) if not each.requires_grad and self._flow.cuts(each)), -1)


def _outer(given: Sequence[tuple[int | str, torch.Tensor]]) -> tuple[int, int]:
    """Return which of two tensors is N×1 and which N, where neither was made so for the purpose."""
    for column, row in ((0, 1), (1, 0)):
        tall, flat = given[column][1], given[row][1]
        if tall.dim() == 2 and flat.dim() == 1 and tall.shape[1] == 1 and 1 < tall.shape[0] == flat.shape[0]:
            base = tall._base
            made_so = (base is not None and base.dim() < 2) or type(tall.grad_fn).__name__.startswith("Unsqueeze")
            return (-1, -1) if made_so or isinstance(flat, torch.nn.Parameter) else (column, row)
    return -1, -1


def _leaves(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Return the leaves behind some tensors, as far as they are near."""
    found = [each for each in tensors if each.grad_fn is None]
    nodes: list[Any] = [each.grad_fn for each in tensors if each.grad_fn is not None]
    seen = set(nodes)
    for node in nodes:  # grows as we go
        if type(node).__name__ == "AccumulateGrad":
            found.append(node.variable)
        for producer, _ in node.next_functions if len(nodes) < _MOST_WALKED else ():
            if producer is not None and producer not in seen:
                seen.add(producer)
                nodes.append(producer)
    return found
