"""The deep-graph guard: a walked graph stays safe to free, however deep it is.

Note [Freeing a walked graph]
    Since PyTorch 2.13 a C++ node keeps its Python wrapper for as long as it lives (PyTorch pull requests 179924 and
    181782), and freeing a wrapped node frees its inputs by C recursion: about 209 bytes of stack a level. A walked
    chain of more than about 40,000 nodes therefore kills the process when the user later drops the loss (3,000 in a
    thread with a stack of 512 kB). Nodes that Python never touched are freed by a loop.

    The fix: cut every long descent. Sequence numbers fall along every edge of a graph that one thread has made. Where
    an edge crosses a multiple of STRIDE (or does not fall), its consumer gets an object in `node.metadata`, which the
    node's destructor releases before it releases its inputs. That object owns the inputs on the far side, and when it
    dies it hands them to a queue, which the outermost dying object empties in a loop. No descent is then longer than
    STRIDE levels.

    A hand-off owns nothing but its own node's inputs, which the node owns anyway: the guard never prolongs a life. And
    the cuts do not depend on where a walk began, so a second walk finds its hand-offs in place.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from backsight.tape._torch import NO_SEQUENCE, keeps_metadata

STRIDE = 200
"""Levels between two cuts: 42 kB of stack, little even for a thread with a small one."""

SAFE = 600
"""A graph of at most this many nodes cannot be deep enough to hurt, whatever its shape: a level takes 209 bytes of
stack, and some 350 where the node is a custom function's and Python is 3.13."""

_KEY = "_backsight"


class _Queue(threading.local):
    """Nodes waiting to be freed by this thread; `draining` while the loop that frees them runs."""

    def __init__(self) -> None:
        self.pending: list[Any] = []
        self.draining = False


_queue = _Queue()


class HandOff:
    """Owns the inputs of one node and, when that node dies, has them freed by a loop instead of by recursion."""

    __slots__ = ("nodes",)

    def __init__(self, nodes: list[Any]):
        self.nodes = nodes

    def __del__(self, queue: _Queue = _queue) -> None:
        # `queue` is bound early: at interpreter exit this module's globals may be gone.
        queue.pending += self.nodes
        self.nodes.clear()
        if queue.draining:
            return
        queue.draining = True
        try:
            while queue.pending:
                queue.pending.pop()
        finally:
            queue.draining = False


def protect(nodes: Sequence[Any], start: NDArray[Any], inputs: NDArray[Any], sequence: NDArray[Any]) -> None:
    """Hang hand-offs on walked `nodes` where an edge must be cut.

    The inputs of `nodes[i]` are `nodes[j]` for `j` in `inputs[start[i]:start[i + 1]]`, -1 meaning no node; `sequence`
    holds the sequence numbers. Leaves have no inputs, so edges to them need no cut.
    """
    consumer = np.repeat(np.arange(len(nodes)), np.diff(start))
    above, below = sequence[consumer], sequence[inputs]
    cut = (above // STRIDE != below // STRIDE) | (above <= below)
    cut &= (inputs >= 0) & (below != NO_SEQUENCE)
    hand_offs: defaultdict[int, list[Any]] = defaultdict(list)
    for i, j in zip(consumer[cut].tolist(), inputs[cut].tolist(), strict=True):
        hand_offs[i].append(nodes[j])
    for i, far in hand_offs.items() if keeps_metadata else ():
        nodes[i].metadata.setdefault(_KEY, HandOff(far))
