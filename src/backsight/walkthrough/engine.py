"""The engine's part of a backward pass, in Python: which node is next, and what has arrived at it.

Note [The engine's order]
    A node is ready once all of its consumers have run. Of the ready nodes the engine takes the one that was made last
    in the forward pass (the highest sequence number), leaves before all others. Gradients that meet are added in the
    order in which they arrive, so that sums have the engine's very bits. (torch/csrc/autograd/engine.cpp)
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.autograd.graph import GradientEdge

from backsight.random_state import RandomStream, random_state_kept
from backsight.tape import NO_SEQUENCE, calling, input_metadata
from backsight.tape.walk import Walk
from backsight.walkthrough._torch import inside, recompute_once
from backsight.walkthrough.errors import WalkError

Results = tuple[torch.Tensor | None, ...]


@dataclass
class Arrival:
    """The gradient of one output of a node, as it comes together: its sum so far, and of how many parts."""

    value: torch.Tensor | None = None
    parts: int = 0

    def add(self, part: torch.Tensor) -> None:
        """Add a part, in the engine's order of operands."""
        if self.value is None:
            self.value = part
        elif self.value.layout != torch.strided:  # sparse + dense is not defined, dense + sparse is
            self.value = part + self.value
        else:
            self.value = self.value + part
        self.parts += 1


@dataclass(frozen=True)
class Executed:
    """One node that has run: what came, and for each input what left, before and after the engine fitted it."""

    index: int
    arrived: tuple[Arrival, ...]
    made: Results
    sent: Results


@dataclass
class Engine:
    """A backward pass over live nodes, one node at a time. Neither `.grad` nor what the graph saved is touched."""

    live: Walk
    create_graph: bool = False
    _arrived: dict[int, list[Arrival]] = field(default_factory=dict)
    _ready: list[tuple[int, int, int]] = field(default_factory=list)
    _pushed: int = 0
    _roots: tuple[tuple[int, int, torch.Tensor], ...] = ()

    def __post_init__(self) -> None:
        used = self.live.inputs[self.live.inputs >= 0]
        self._waiting: list[int] = np.bincount(used, minlength=len(self.live.nodes)).tolist()
        self._group = recompute_once()
        self._random = RandomStream()

    def begin(self, roots: Sequence[tuple[int, int, torch.Tensor]]) -> None:
        """Let gradients arrive at the roots, each given as node, output and gradient."""
        self._roots = tuple(roots)
        for node, output, gradient in roots:
            self._at(node)[output].add(gradient)
        for node in dict.fromkeys(node for node, _, _ in roots):
            if not self._waiting[node]:
                self._push(node)

    @property
    def next(self) -> int | None:
        """The node that runs next; None at the end."""
        return self._ready[0][2] if self._ready else None

    def advance(self) -> Executed:
        """Run the next node. If it raises, the pass stands where it stood."""
        i = self._ready[0][2]
        arrived = self._at(i)
        made = self._made(i, [arrival.value for arrival in arrived])
        with torch.set_grad_enabled(self.create_graph):
            sent = self._all_fitted(i, made)
            heapq.heappop(self._ready)
            del self._arrived[i]
            self._deliver(i, sent)
        return Executed(i, tuple(arrived), made, sent)

    def call(self, i: int, gradients: Sequence[torch.Tensor | None]) -> Results:
        """Call one node outside of the pass, and return what would leave it."""
        with random_state_kept(), torch.no_grad():
            return self._all_fitted(i, call(self.live.nodes[i], gradients))

    def free(self) -> None:
        """Release what the graph saved, by the only way there is: the real engine's pass, its gradients dropped."""
        leaves = [n for n, s in zip(self.live.nodes, self.live.sequence.tolist(), strict=True) if s == NO_SEQUENCE]
        with random_state_kept():
            torch.autograd.grad(
                [GradientEdge(self.live.nodes[i], output) for i, output, _ in self._roots],
                [GradientEdge(leaf, 0) for leaf in leaves],
                [gradient for _, _, gradient in self._roots],
                allow_unused=True,
            )

    def _made(self, i: int, gradients: list[torch.Tensor | None]) -> Results:
        if int(self.live.sequence[i]) == NO_SEQUENCE:
            return ()
        with self._random.resumed(), inside(self._group), torch.set_grad_enabled(self.create_graph):
            return call(self.live.nodes[i], gradients)

    def _all_fitted(self, i: int, made: Sequence[torch.Tensor | None]) -> Results:
        """Return what leaves node `i` for each of its inputs, as the engine hands it on."""
        results = (*made, *[None] * (len(self._edges(i)) - len(made)))
        edges = zip(self._edges(i), results, strict=False)
        return tuple(
            None if result is None or j < 0 else fitted(result, self.live.nodes[j], output)
            for (j, output), result in edges
        )

    def _deliver(self, i: int, sent: Results) -> None:
        for (j, output), part in zip(self._edges(i), sent, strict=True):
            if j < 0:
                continue
            arrived = self._at(j)
            if part is not None:
                arrived[output].add(part)
            self._waiting[j] -= 1
            if not self._waiting[j]:
                self._push(j)

    def _edges(self, i: int) -> list[tuple[int, int]]:
        span = slice(self.live.start[i], self.live.start[i + 1])
        return list(zip(self.live.inputs[span].tolist(), self.live.outputs[span].tolist(), strict=True))

    def _at(self, i: int) -> list[Arrival]:
        if i not in self._arrived:
            self._arrived[i] = [Arrival() for _ in input_metadata(self.live.nodes[i])]
        return self._arrived[i]

    def _push(self, i: int) -> None:
        heapq.heappush(self._ready, (-int(self.live.sequence[i]), self._pushed, i))
        self._pushed += 1


def call(node: Any, gradients: calling.Gradients) -> tuple[torch.Tensor | None, ...]:
    """Return what the backward of `node` makes of `gradients`: one result for each of its `next_functions`."""
    try:
        return calling.call(node, gradients)
    except calling.BackwardRaises as error:
        raise WalkError(str(error)) from None


def fitted(gradient: torch.Tensor, node: Any, output: int) -> torch.Tensor:
    """Return `gradient` as the engine hands it to output number `output` of `node`."""
    try:
        return calling.fitted(gradient, node, output)
    except calling.BackwardRaises as error:
        raise WalkError(str(error)) from None
